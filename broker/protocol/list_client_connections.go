package protocol

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListClientConnectionsRequest asks one broker for the connections it has open (KIP-1329). A nil filter lets every
// connection pass; filters that are set must all match.
type ListClientConnectionsRequest struct {
	Version int16 // 0 only

	PrincipalFilter     *string // Type:name, compared exactly
	ClientAddressFilter *string // an IP address in any spelling
	ListenerFilter      *string // in any case

	UnknownTags kmsg.Tags

	key int16
}

// ListClientConnectionsResponse is one broker's answer. The schema has no place for a message beside ErrorCode.
type ListClientConnectionsResponse struct {
	Version int16

	ThrottleMillis int32 // for how long the broker throttles the client, in milliseconds; always 0 today
	ErrorCode      int16 // Kafka's error code; 0: none
	Connections    []ListClientConnectionsResponseConnection

	UnknownTags kmsg.Tags

	key int16
}

// ListClientConnectionsResponseConnection is one open connection.
type ListClientConnectionsResponseConnection struct {
	ConnectionID     string // unique for this broker's life
	Principal        string // type and name, as in User:alice; "" while nobody is known
	PrincipalType    string // the part of Principal before its colon; "" while nobody is known
	ClientAddress    string // as Java prints addresses
	ClientPort       int32  // the client's
	ListenerName     string // in upper case
	SecurityProtocol string // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, as the listener is configured
	SoftwareName     string // "" until the client has named itself
	SoftwareVersion  string // "" until the client has named itself
	ConnectedSince   int64  // milliseconds since 1970; 0 when the broker does not know

	UnknownTags kmsg.Tags
}

// leastListedConnection is the size of a connection whose fields are all empty.
const leastListedConnection = 8 + 4 + 8 + 1

func (v *ListClientConnectionsRequest) fields(c *codec) {
	c.nullableString(&v.PrincipalFilter)
	c.nullableString(&v.ClientAddressFilter)
	c.nullableString(&v.ListenerFilter)
	c.tags(&v.UnknownTags)
}

func (v *ListClientConnectionsResponse) fields(c *codec) {
	c.int32(&v.ThrottleMillis)
	c.int16(&v.ErrorCode)
	array(c, &v.Connections, leastListedConnection, (*ListClientConnectionsResponseConnection).fields)
	c.tags(&v.UnknownTags)
}

func (v *ListClientConnectionsResponseConnection) fields(c *codec) {
	c.string(&v.ConnectionID)
	c.string(&v.Principal)
	c.string(&v.PrincipalType)
	c.string(&v.ClientAddress)
	c.int32(&v.ClientPort)
	c.string(&v.ListenerName)
	c.string(&v.SecurityProtocol)
	c.string(&v.SoftwareName)
	c.string(&v.SoftwareVersion)
	c.int64(&v.ConnectedSince)
	c.tags(&v.UnknownTags)
}

var (
	_ kmsg.Request          = (*ListClientConnectionsRequest)(nil)
	_ kmsg.ThrottleResponse = (*ListClientConnectionsResponse)(nil)
)

// NewPtrListClientConnectionsRequest returns a request without filters, under the standard key.
func NewPtrListClientConnectionsRequest() *ListClientConnectionsRequest {
	return new(ListClientConnectionsRequest)
}

// NewPtrListClientConnectionsResponse returns an empty response.
func NewPtrListClientConnectionsResponse() *ListClientConnectionsResponse {
	return new(ListClientConnectionsResponse)
}

// SetKey moves the request, and the response it expects, to another API key.
func (v *ListClientConnectionsRequest) SetKey(key int16) { v.key = key }

// Key is the API key: 93 unless [ListClientConnectionsRequest.SetKey] moved it.
func (v *ListClientConnectionsRequest) Key() int16 {
	return keyOr(v.key, DefaultListClientConnectionsKey)
}

// MaxVersion is the newest version that this package can write and read.
func (*ListClientConnectionsRequest) MaxVersion() int16 { return 0 }

// SetVersion sets the version of the request and of the response it expects.
func (v *ListClientConnectionsRequest) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *ListClientConnectionsRequest) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*ListClientConnectionsRequest) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*ListClientConnectionsRequest) Default() {}

// AppendTo appends the request's body to dst.
func (v *ListClientConnectionsRequest) AppendTo(dst []byte) []byte { return appendTo(dst, v.fields) }

// ReadFrom reads the request's body; bytes after it are ignored, as Kafka does.
func (v *ListClientConnectionsRequest) ReadFrom(src []byte) error { return readFrom(src, v.fields) }

// ResponseKind returns an empty response of the request's key and version.
func (v *ListClientConnectionsRequest) ResponseKind() kmsg.Response {
	return &ListClientConnectionsResponse{Version: v.Version, key: v.key}
}

// RequestWith sends the request with r and returns the response in its own type.
func (v *ListClientConnectionsRequest) RequestWith(ctx context.Context, r kmsg.Requestor) (*ListClientConnectionsResponse, error) {
	return requestWith[*ListClientConnectionsResponse](ctx, r, v)
}

// Key is the API key of the request this answers.
func (v *ListClientConnectionsResponse) Key() int16 {
	return keyOr(v.key, DefaultListClientConnectionsKey)
}

// MaxVersion is the newest version that this package can write and read.
func (*ListClientConnectionsResponse) MaxVersion() int16 { return 0 }

// SetVersion sets the version.
func (v *ListClientConnectionsResponse) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *ListClientConnectionsResponse) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*ListClientConnectionsResponse) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*ListClientConnectionsResponse) Default() {}

// AppendTo appends the response's body to dst.
func (v *ListClientConnectionsResponse) AppendTo(dst []byte) []byte { return appendTo(dst, v.fields) }

// ReadFrom reads the response's body.
func (v *ListClientConnectionsResponse) ReadFrom(src []byte) error { return readFrom(src, v.fields) }

// RequestKind returns an empty request of the response's key and version.
func (v *ListClientConnectionsResponse) RequestKind() kmsg.Request {
	return &ListClientConnectionsRequest{Version: v.Version, key: v.key}
}

// Throttle returns how long the broker throttles the client, and that a client throttles itself after the response.
func (v *ListClientConnectionsResponse) Throttle() (int32, bool) { return v.ThrottleMillis, true }

// SetThrottle sets how long the broker throttles the client.
func (v *ListClientConnectionsResponse) SetThrottle(millis int32) { v.ThrottleMillis = millis }
