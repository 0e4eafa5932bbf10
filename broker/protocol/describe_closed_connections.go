package protocol

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeClosedConnectionsRequest asks one broker for the connections that have ended of late, as far as it remembers
// them. A nil filter lets every connection pass; filters that are set must all match.
type DescribeClosedConnectionsRequest struct {
	Version int16 // 0 only

	PrincipalFilter *string // Type:name, compared exactly
	AddressFilter   *string // an IP address or a CIDR prefix
	ListenerFilter  *string // in any case
	ProtocolFilter  *string // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, in any case
	SoftwareFilter  *string // software name, compared exactly
	ReasonFilter    *string // as in the answer, in any case

	// AfterSequence asks for those that ended after the one of this number; 0 asks for all that are remembered. With the
	// Sequence of the answer before, nothing comes twice.
	AfterSequence int64

	UnknownTags kmsg.Tags

	key int16
}

// DescribeClosedConnectionsResponse is what one broker remembers, the connection that ended last at the end.
type DescribeClosedConnectionsResponse struct {
	Version int16

	ThrottleMillis int32   // for how long the broker throttles the client, in milliseconds; always 0 today
	ErrorCode      int16   // Kafka's error code; 0: none
	ErrorMessage   *string // what is wrong, in words; nil without an error
	NodeID         int32   // of the broker that answers
	Incarnation    int64   // of the broker: after a restart it counts from 0 again
	Sequence       int64   // how many have ended since it started, whatever the filters
	Capacity       int32   // how many of them it remembers at most
	CompleteSince  int64   // what ended later than this it remembers completely; 0: it has forgotten none
	Time           int64   // of the answer, by the broker's clock: milliseconds since 1970
	Connections    []DescribeClosedConnectionsResponseConnection

	UnknownTags kmsg.Tags

	key int16
}

// DescribeClosedConnectionsResponseConnection is one connection that has ended. Times are milliseconds since 1970 by the
// broker's clock. Texts that clients chose may be cut, and then end in an ellipsis.
type DescribeClosedConnectionsResponseConnection struct {
	Sequence         int64   // counts up by one, over all of the broker's listeners
	ConnectionID     string  // "" where the socket was refused before it became a connection
	Principal        string  // type and name, as in User:alice; "" when it never became known
	PrincipalType    string  // the part of Principal before its colon; "" when it never became known
	ClientAddress    string  // as Java prints addresses
	ClientPort       int32   // the client's
	ListenerName     string  // in upper case
	SecurityProtocol string  // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, as the listener is configured
	SoftwareName     string  // "" when the client has not named itself
	SoftwareVersion  string  // "" when the client has not named itself
	ClientID         *string // of the latest request; nil without one
	ConnectedSince   int64   // when it was accepted
	ClosedAt         int64   // when it ended
	Reason           string  // one of a closed list, in snake case
	BytesIn          int64   // from the client; ciphertext over TLS
	BytesOut         int64   // to the client; ciphertext over TLS

	UnknownTags kmsg.Tags
}

// leastClosedConnection is the size of a connection whose fields are all empty.
const leastClosedConnection = 8 + 4 + 4 + 4 + 1 + 2*8 + 1 + 2*8 + 1

func (v *DescribeClosedConnectionsRequest) fields(c *codec) {
	c.nullableString(&v.PrincipalFilter)
	c.nullableString(&v.AddressFilter)
	c.nullableString(&v.ListenerFilter)
	c.nullableString(&v.ProtocolFilter)
	c.nullableString(&v.SoftwareFilter)
	c.nullableString(&v.ReasonFilter)
	c.int64(&v.AfterSequence)
	c.tags(&v.UnknownTags)
}

func (v *DescribeClosedConnectionsResponse) fields(c *codec) {
	c.int32(&v.ThrottleMillis)
	c.int16(&v.ErrorCode)
	c.nullableString(&v.ErrorMessage)
	c.int32(&v.NodeID)
	c.int64(&v.Incarnation)
	c.int64(&v.Sequence)
	c.int32(&v.Capacity)
	c.int64(&v.CompleteSince)
	c.int64(&v.Time)
	array(c, &v.Connections, leastClosedConnection, (*DescribeClosedConnectionsResponseConnection).fields)
	c.tags(&v.UnknownTags)
}

func (v *DescribeClosedConnectionsResponseConnection) fields(c *codec) {
	c.int64(&v.Sequence)
	c.string(&v.ConnectionID)
	c.string(&v.Principal)
	c.string(&v.PrincipalType)
	c.string(&v.ClientAddress)
	c.int32(&v.ClientPort)
	c.string(&v.ListenerName)
	c.string(&v.SecurityProtocol)
	c.string(&v.SoftwareName)
	c.string(&v.SoftwareVersion)
	c.nullableString(&v.ClientID)
	c.int64(&v.ConnectedSince)
	c.int64(&v.ClosedAt)
	c.string(&v.Reason)
	c.int64(&v.BytesIn)
	c.int64(&v.BytesOut)
	c.tags(&v.UnknownTags)
}

var (
	_ kmsg.Request          = (*DescribeClosedConnectionsRequest)(nil)
	_ kmsg.ThrottleResponse = (*DescribeClosedConnectionsResponse)(nil)
)

// NewPtrDescribeClosedConnectionsRequest returns a request without filters, for all that is remembered, under the standard key.
func NewPtrDescribeClosedConnectionsRequest() *DescribeClosedConnectionsRequest {
	return new(DescribeClosedConnectionsRequest)
}

// NewPtrDescribeClosedConnectionsResponse returns an empty response.
func NewPtrDescribeClosedConnectionsResponse() *DescribeClosedConnectionsResponse {
	return new(DescribeClosedConnectionsResponse)
}

// SetKey moves the request, and the response it expects, to another API key.
func (v *DescribeClosedConnectionsRequest) SetKey(key int16) { v.key = key }

// Key is the API key: 10003 unless [DescribeClosedConnectionsRequest.SetKey] moved it.
func (v *DescribeClosedConnectionsRequest) Key() int16 { return keyOr(v.key, DefaultDescribeClosedKey) }

// MaxVersion is the newest version that this package can write and read.
func (*DescribeClosedConnectionsRequest) MaxVersion() int16 { return 0 }

// SetVersion sets the version of the request and of the response it expects.
func (v *DescribeClosedConnectionsRequest) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *DescribeClosedConnectionsRequest) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*DescribeClosedConnectionsRequest) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*DescribeClosedConnectionsRequest) Default() {}

// AppendTo appends the request's body to dst.
func (v *DescribeClosedConnectionsRequest) AppendTo(dst []byte) []byte {
	return appendTo(dst, v.fields)
}

// ReadFrom reads the request's body; bytes after it are ignored, as Kafka does.
func (v *DescribeClosedConnectionsRequest) ReadFrom(src []byte) error { return readFrom(src, v.fields) }

// ResponseKind returns an empty response of the request's key and version.
func (v *DescribeClosedConnectionsRequest) ResponseKind() kmsg.Response {
	return &DescribeClosedConnectionsResponse{Version: v.Version, key: v.key}
}

// RequestWith sends the request with r and returns the response in its own type.
func (v *DescribeClosedConnectionsRequest) RequestWith(ctx context.Context, r kmsg.Requestor) (*DescribeClosedConnectionsResponse, error) {
	return requestWith[*DescribeClosedConnectionsResponse](ctx, r, v)
}

// Key is the API key of the request this answers.
func (v *DescribeClosedConnectionsResponse) Key() int16 {
	return keyOr(v.key, DefaultDescribeClosedKey)
}

// MaxVersion is the newest version that this package can write and read.
func (*DescribeClosedConnectionsResponse) MaxVersion() int16 { return 0 }

// SetVersion sets the version.
func (v *DescribeClosedConnectionsResponse) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *DescribeClosedConnectionsResponse) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*DescribeClosedConnectionsResponse) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*DescribeClosedConnectionsResponse) Default() {}

// AppendTo appends the response's body to dst.
func (v *DescribeClosedConnectionsResponse) AppendTo(dst []byte) []byte {
	return appendTo(dst, v.fields)
}

// ReadFrom reads the response's body.
func (v *DescribeClosedConnectionsResponse) ReadFrom(src []byte) error {
	return readFrom(src, v.fields)
}

// RequestKind returns an empty request of the response's key and version.
func (v *DescribeClosedConnectionsResponse) RequestKind() kmsg.Request {
	return &DescribeClosedConnectionsRequest{Version: v.Version, key: v.key}
}

// Throttle returns how long the broker throttles the client, and that a client throttles itself after the response.
func (v *DescribeClosedConnectionsResponse) Throttle() (int32, bool) { return v.ThrottleMillis, true }

// SetThrottle sets how long the broker throttles the client.
func (v *DescribeClosedConnectionsResponse) SetThrottle(millis int32) { v.ThrottleMillis = millis }
