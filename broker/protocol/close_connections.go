package protocol

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// CloseConnectionsRequest has one broker close connections: those that pass every filter that is set and, where there are ids,
// have one of them. The connection that asks is spared unless it is named by its id.
//
// Without any filter or id it closes nothing, and is an error, unless All says that this is meant.
type CloseConnectionsRequest struct {
	Version int16 // 0 only

	PrincipalFilter *string // Type:name, compared exactly
	AddressFilter   *string // an IP address or a CIDR prefix
	ListenerFilter  *string // in any case
	ProtocolFilter  *string // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, in any case
	SoftwareFilter  *string // software name, compared exactly

	ConnectionIDs []string // as listings show them; none: connections of any id
	All           bool     // every connection is meant where no filter and no id is set
	Most          int32    // close so many at most, those that were least recently active; 0: all that match
	ValidateOnly  bool     // close nothing, only tell what would be closed

	UnknownTags kmsg.Tags

	key int16
}

// CloseConnectionsResponse tells which connections were closed. When it is sent their slots are free, but for those of Pending.
type CloseConnectionsResponse struct {
	Version int16

	ThrottleMillis int32   // for how long the broker throttles the client, in milliseconds; always 0 today
	ErrorCode      int16   // Kafka's error code; 0: none
	ErrorMessage   *string // what is wrong, in words; nil without an error
	NodeID         int32   // of the broker that answers
	Time           int64   // of the answer, by the broker's clock: milliseconds since 1970
	Matched        int64   // connections that matched, whatever Most says; the one that asks is not among them unless named
	Spared         bool    // the connection that asks matched a filter and was left
	Pending        int64   // of Connections: told to close, and not closed yet when the answer was made
	Connections    []CloseConnectionsResponseConnection
	NotFound       []string // ids that no open connection has, or that a filter kept out

	UnknownTags kmsg.Tags

	key int16
}

// CloseConnectionsResponseConnection is one connection that was closed, or would be, as it was.
type CloseConnectionsResponseConnection struct {
	ConnectionID     string  // unique for this broker's life
	Principal        string  // type and name, as in User:alice; "" while nobody is known
	PrincipalType    string  // the part of Principal before its colon; "" while nobody is known
	ClientAddress    string  // as Java prints addresses
	ClientPort       int32   // the client's
	ListenerName     string  // in upper case
	SecurityProtocol string  // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, as the listener is configured
	SoftwareName     string  // "" until the client has named itself
	SoftwareVersion  string  // "" until the client has named itself
	ClientID         *string // of the latest request; nil before the first
	ConnectedSince   int64   // milliseconds since 1970 by the broker's clock
	IdleMillis       int64   // since bytes came or went last

	UnknownTags kmsg.Tags
}

// leastClosingConnection is the size of a connection whose fields are all empty.
const leastClosingConnection = 4 + 4 + 5 + 2*8 + 1

func (v *CloseConnectionsRequest) fields(c *codec) {
	c.nullableString(&v.PrincipalFilter)
	c.nullableString(&v.AddressFilter)
	c.nullableString(&v.ListenerFilter)
	c.nullableString(&v.ProtocolFilter)
	c.nullableString(&v.SoftwareFilter)
	array(c, &v.ConnectionIDs, 1, stringField)
	c.bool(&v.All)
	c.int32(&v.Most)
	c.bool(&v.ValidateOnly)
	c.tags(&v.UnknownTags)
}

func (v *CloseConnectionsResponse) fields(c *codec) {
	c.int32(&v.ThrottleMillis)
	c.int16(&v.ErrorCode)
	c.nullableString(&v.ErrorMessage)
	c.int32(&v.NodeID)
	c.int64(&v.Time)
	c.int64(&v.Matched)
	c.bool(&v.Spared)
	c.int64(&v.Pending)
	array(c, &v.Connections, leastClosingConnection, (*CloseConnectionsResponseConnection).fields)
	array(c, &v.NotFound, 1, stringField)
	c.tags(&v.UnknownTags)
}

func (v *CloseConnectionsResponseConnection) fields(c *codec) {
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
	c.int64(&v.IdleMillis)
	c.tags(&v.UnknownTags)
}

var (
	_ kmsg.Request          = (*CloseConnectionsRequest)(nil)
	_ kmsg.ThrottleResponse = (*CloseConnectionsResponse)(nil)
)

// NewPtrCloseConnectionsRequest returns a request that closes nothing before it has a filter, ids or All, under the standard key.
func NewPtrCloseConnectionsRequest() *CloseConnectionsRequest { return new(CloseConnectionsRequest) }

// NewPtrCloseConnectionsResponse returns an empty response.
func NewPtrCloseConnectionsResponse() *CloseConnectionsResponse { return new(CloseConnectionsResponse) }

// SetKey moves the request, and the response it expects, to another API key.
func (v *CloseConnectionsRequest) SetKey(key int16) { v.key = key }

// Key is the API key: 10005 unless [CloseConnectionsRequest.SetKey] moved it.
func (v *CloseConnectionsRequest) Key() int16 { return keyOr(v.key, DefaultCloseConnectionsKey) }

// MaxVersion is the newest version that this package can write and read.
func (*CloseConnectionsRequest) MaxVersion() int16 { return 0 }

// SetVersion sets the version of the request and of the response it expects.
func (v *CloseConnectionsRequest) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *CloseConnectionsRequest) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*CloseConnectionsRequest) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*CloseConnectionsRequest) Default() {}

// AppendTo appends the request's body to dst.
func (v *CloseConnectionsRequest) AppendTo(dst []byte) []byte { return appendTo(dst, v.fields) }

// ReadFrom reads the request's body; bytes after it are ignored, as Kafka does.
func (v *CloseConnectionsRequest) ReadFrom(src []byte) error { return readFrom(src, v.fields) }

// ResponseKind returns an empty response of the request's key and version.
func (v *CloseConnectionsRequest) ResponseKind() kmsg.Response {
	return &CloseConnectionsResponse{Version: v.Version, key: v.key}
}

// RequestWith sends the request with r and returns the response in its own type.
func (v *CloseConnectionsRequest) RequestWith(ctx context.Context, r kmsg.Requestor) (*CloseConnectionsResponse, error) {
	return requestWith[*CloseConnectionsResponse](ctx, r, v)
}

// Key is the API key of the request this answers.
func (v *CloseConnectionsResponse) Key() int16 { return keyOr(v.key, DefaultCloseConnectionsKey) }

// MaxVersion is the newest version that this package can write and read.
func (*CloseConnectionsResponse) MaxVersion() int16 { return 0 }

// SetVersion sets the version.
func (v *CloseConnectionsResponse) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *CloseConnectionsResponse) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*CloseConnectionsResponse) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*CloseConnectionsResponse) Default() {}

// AppendTo appends the response's body to dst.
func (v *CloseConnectionsResponse) AppendTo(dst []byte) []byte { return appendTo(dst, v.fields) }

// ReadFrom reads the response's body.
func (v *CloseConnectionsResponse) ReadFrom(src []byte) error { return readFrom(src, v.fields) }

// RequestKind returns an empty request of the response's key and version.
func (v *CloseConnectionsResponse) RequestKind() kmsg.Request {
	return &CloseConnectionsRequest{Version: v.Version, key: v.key}
}

// Throttle returns how long the broker throttles the client, and that a client throttles itself after the response.
func (v *CloseConnectionsResponse) Throttle() (int32, bool) { return v.ThrottleMillis, true }

// SetThrottle sets how long the broker throttles the client.
func (v *CloseConnectionsResponse) SetThrottle(millis int32) { v.ThrottleMillis = millis }
