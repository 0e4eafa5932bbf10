package protocol

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeMetadataRequest asks one broker how it is with the metadata of its cluster, and which brokers it knows.
type DescribeMetadataRequest struct {
	Version int16 // 0 only

	WithHash bool // with the hash of all metadata, which may take the broker a while

	UnknownTags kmsg.Tags

	key int16
}

// DescribeMetadataResponse is what a broker knows at one moment.
type DescribeMetadataResponse struct {
	Version int16

	ThrottleMillis int32   // for how long the broker throttles the client, in milliseconds; always 0 today
	ErrorCode      int16   // Kafka's error code; 0: none
	ErrorMessage   *string // what is wrong, in words; nil without an error
	NodeID         int32   // of the broker that answers
	ClusterID      string  // of its cluster
	Time           int64   // of the answer, by the broker's clock: milliseconds since 1970
	Shared         bool    // other brokers may follow the same log; else it is this broker's own
	Offset         int64   // of the next entry of the log that it is to apply
	End            int64   // after the last entry that it has seen the log have
	Hash           *string // of all metadata up to Offset, in hexadecimal; nil unless it was asked for
	Connected      bool    // the log answered last time
	Since          int64   // when it last answered: milliseconds since 1970
	Fenced         bool    // the broker takes no new clients: by the log, or because it has not heard of it for a session
	Level          int16   // metadata.version of the cluster
	Brokers        []DescribeMetadataResponseBroker

	UnknownTags kmsg.Tags

	key int16
}

// DescribeMetadataResponseBroker is a broker that has registered, or the one that answers where none does.
type DescribeMetadataResponseBroker struct {
	NodeID      int32   // node.id
	Epoch       int64   // offset of its registration; -1 where none registers
	Incarnation string  // of its start; "" where none registers
	Rack        *string // broker.rack; nil without one
	MinLevel    int16   // the lowest metadata.version that it works with
	MaxLevel    int16   // the highest
	Fenced      bool    // clients are not led to it: it has stopped, or is out of touch with the log
	Listeners   []DescribeMetadataResponseListener

	UnknownTags kmsg.Tags
}

// DescribeMetadataResponseListener is where clients reach a broker.
type DescribeMetadataResponseListener struct {
	Name             string // in upper case
	SecurityProtocol string // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
	Host             string // as clients are told it
	Port             int32  // likewise

	UnknownTags kmsg.Tags
}

// The sizes of elements whose fields are all empty.
const (
	leastMetadataBroker   = 4 + 8 + 1 + 1 + 2 + 2 + 1 + 1 + 1
	leastMetadataListener = 1 + 1 + 1 + 4 + 1
)

func (v *DescribeMetadataRequest) fields(c *codec) {
	c.bool(&v.WithHash)
	c.tags(&v.UnknownTags)
}

func (v *DescribeMetadataResponse) fields(c *codec) {
	c.int32(&v.ThrottleMillis)
	c.int16(&v.ErrorCode)
	c.nullableString(&v.ErrorMessage)
	c.int32(&v.NodeID)
	c.string(&v.ClusterID)
	c.int64(&v.Time)
	c.bool(&v.Shared)
	c.int64(&v.Offset)
	c.int64(&v.End)
	c.nullableString(&v.Hash)
	c.bool(&v.Connected)
	c.int64(&v.Since)
	c.bool(&v.Fenced)
	c.int16(&v.Level)
	array(c, &v.Brokers, leastMetadataBroker, (*DescribeMetadataResponseBroker).fields)
	c.tags(&v.UnknownTags)
}

func (v *DescribeMetadataResponseBroker) fields(c *codec) {
	c.int32(&v.NodeID)
	c.int64(&v.Epoch)
	c.string(&v.Incarnation)
	c.nullableString(&v.Rack)
	c.int16(&v.MinLevel)
	c.int16(&v.MaxLevel)
	c.bool(&v.Fenced)
	array(c, &v.Listeners, leastMetadataListener, (*DescribeMetadataResponseListener).fields)
	c.tags(&v.UnknownTags)
}

func (v *DescribeMetadataResponseListener) fields(c *codec) {
	c.string(&v.Name)
	c.string(&v.SecurityProtocol)
	c.string(&v.Host)
	c.int32(&v.Port)
	c.tags(&v.UnknownTags)
}

var (
	_ kmsg.Request          = (*DescribeMetadataRequest)(nil)
	_ kmsg.ThrottleResponse = (*DescribeMetadataResponse)(nil)
)

// NewPtrDescribeMetadataRequest returns a request without the hash, under the standard key.
func NewPtrDescribeMetadataRequest() *DescribeMetadataRequest { return new(DescribeMetadataRequest) }

// NewPtrDescribeMetadataResponse returns an empty response.
func NewPtrDescribeMetadataResponse() *DescribeMetadataResponse {
	return new(DescribeMetadataResponse)
}

// SetKey moves the request, and the response it expects, to another API key.
func (v *DescribeMetadataRequest) SetKey(key int16) { v.key = key }

// Key is the API key: 10008 unless [DescribeMetadataRequest.SetKey] moved it.
func (v *DescribeMetadataRequest) Key() int16 { return keyOr(v.key, DefaultDescribeMetadataKey) }

// MaxVersion is the newest version that this package can write and read.
func (*DescribeMetadataRequest) MaxVersion() int16 { return 0 }

// SetVersion sets the version of the request and of the response it expects.
func (v *DescribeMetadataRequest) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *DescribeMetadataRequest) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*DescribeMetadataRequest) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*DescribeMetadataRequest) Default() {}

// AppendTo appends the request's body to dst.
func (v *DescribeMetadataRequest) AppendTo(dst []byte) []byte { return appendTo(dst, v.fields) }

// ReadFrom reads the request's body; bytes after it are ignored, as Kafka does.
func (v *DescribeMetadataRequest) ReadFrom(src []byte) error { return readFrom(src, v.fields) }

// ResponseKind returns an empty response of the request's key and version.
func (v *DescribeMetadataRequest) ResponseKind() kmsg.Response {
	return &DescribeMetadataResponse{Version: v.Version, key: v.key}
}

// RequestWith sends the request with r and returns the response in its own type.
func (v *DescribeMetadataRequest) RequestWith(ctx context.Context, r kmsg.Requestor) (*DescribeMetadataResponse, error) {
	return requestWith[*DescribeMetadataResponse](ctx, r, v)
}

// Key is the API key of the request this answers.
func (v *DescribeMetadataResponse) Key() int16 { return keyOr(v.key, DefaultDescribeMetadataKey) }

// MaxVersion is the newest version that this package can write and read.
func (*DescribeMetadataResponse) MaxVersion() int16 { return 0 }

// SetVersion sets the version.
func (v *DescribeMetadataResponse) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *DescribeMetadataResponse) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*DescribeMetadataResponse) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*DescribeMetadataResponse) Default() {}

// AppendTo appends the response's body to dst.
func (v *DescribeMetadataResponse) AppendTo(dst []byte) []byte { return appendTo(dst, v.fields) }

// ReadFrom reads the response's body.
func (v *DescribeMetadataResponse) ReadFrom(src []byte) error { return readFrom(src, v.fields) }

// RequestKind returns an empty request of the response's key and version.
func (v *DescribeMetadataResponse) RequestKind() kmsg.Request {
	return &DescribeMetadataRequest{Version: v.Version, key: v.key}
}

// Throttle returns how long the broker throttles the client, and that a client throttles itself after the response.
func (v *DescribeMetadataResponse) Throttle() (int32, bool) { return v.ThrottleMillis, true }

// SetThrottle sets how long the broker throttles the client.
func (v *DescribeMetadataResponse) SetThrottle(millis int32) { v.ThrottleMillis = millis }
