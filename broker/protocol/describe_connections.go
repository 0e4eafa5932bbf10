package protocol

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeConnectionsRequest asks one broker for everything it knows of its open connections, page by page. A nil filter
// lets every connection pass; filters that are set must all match.
type DescribeConnectionsRequest struct {
	Version int16 // 0 only

	PrincipalFilter *string // Type:name, compared exactly
	AddressFilter   *string // an IP address or a CIDR prefix
	ListenerFilter  *string // in any case
	ProtocolFilter  *string // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, in any case
	SoftwareFilter  *string // software name, compared exactly

	// PageSize is how many connections the answer may hold; 0 leaves it to the broker, which may also answer with fewer.
	PageSize int32
	// Cursor is NextCursor of the previous page; nil asks for the first. A walk over all pages returns each connection
	// at most once, and every connection that was open during the whole walk exactly once.
	Cursor []byte
	// Kernel asks for what the kernel knows of each socket beside what the broker knows.
	Kernel bool

	UnknownTags kmsg.Tags

	key int16
}

// DescribeConnectionsResponse is one page of one broker's connections.
type DescribeConnectionsResponse struct {
	Version int16

	ThrottleMillis int32   // for how long the broker throttles the client, in milliseconds; always 0 today
	ErrorCode      int16   // Kafka's error code; 0: none
	ErrorMessage   *string // what is wrong, in words; nil without an error
	NodeID         int32   // of the broker that answers
	Total          int64   // connections that matched when the page was made, on this and on all other pages
	NextCursor     []byte  // nil after the last page
	KernelSource   string  // where the kernel's facts are from: full, sock_diag or off
	KernelWhy      string  // why there are none, or why they are not exact; "" when nothing is missing
	Connections    []DescribeConnectionsResponseConnection

	UnknownTags kmsg.Tags

	key int16
}

// DescribeConnectionsResponseConnection is one open connection. Times are milliseconds since 1970 by the broker's clock.
type DescribeConnectionsResponseConnection struct {
	ConnectionID     string  // unique for this broker's life
	Principal        string  // type and name, as in User:alice; "" while nobody is known
	PrincipalType    string  // the part of Principal before its colon; "" while nobody is known
	ClientAddress    string  // as Java prints addresses
	ClientPort       int32   // the client's
	LocalAddress     string  // where the client has connected to, as Java prints addresses
	LocalPort        int32   // the broker's
	ListenerName     string  // in upper case
	SecurityProtocol string  // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, as the listener is configured
	SoftwareName     string  // "" until the client has named itself
	SoftwareVersion  string  // "" until the client has named itself
	ClientID         *string // of the latest request; nil before the first
	State            string  // handshaking, authenticating, open, reauthenticating or closing, see the State constants
	ConnectedSince   int64   // when it was accepted
	LastActive       int64   // when bytes came or went last
	IdleMillis       int64   // since LastActive when the page was made, for readers whose clock differs
	BytesIn          int64   // from the client; ciphertext over TLS
	BytesOut         int64   // to the client; ciphertext over TLS
	SocketCookie     uint64  // the kernel's name of the socket; 0 when unknown

	TLS    *DescribeConnectionsResponseTLS    // nil without TLS and before the handshake has ended
	SASL   *DescribeConnectionsResponseSASL   // nil without SASL and before authentication has ended
	Kernel *DescribeConnectionsResponseKernel // nil when not asked for, or when the kernel was not asked

	UnknownTags kmsg.Tags
}

// The states of a connection.
const (
	StateHandshaking      = "handshaking"      // TLS has not ended
	StateAuthenticating   = "authenticating"   // SASL has not ended, for the first time
	StateOpen             = "open"             // requests are served
	StateReauthenticating = "reauthenticating" // SASL has begun again
	StateClosing          = "closing"          // a last answer is held back or is being sent
)

// DescribeConnectionsResponseTLS is what a TLS handshake agreed on.
type DescribeConnectionsResponseTLS struct {
	ProtocolVersion string // TLSv1.2, TLSv1.3
	CipherSuite     string // by its IANA name
	ServerName      string // SNI; "" when the client sent none
	PeerSubject     string // RFC 2253; "" without a client certificate
	PeerSerial      string // hexadecimal
	PeerNotAfter    int64  // 0 without a client certificate

	UnknownTags kmsg.Tags
}

// DescribeConnectionsResponseSASL is how a connection authenticated.
type DescribeConnectionsResponseSASL struct {
	Mechanism          string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	AuthenticatedSince int64  // of the current session: re-authentication moves it

	UnknownTags kmsg.Tags
}

// DescribeConnectionsResponseKernel is what the kernel knows of the connection's socket.
type DescribeConnectionsResponseKernel struct {
	State     string // as ss(8) prints it: ESTAB, CLOSE-WAIT …
	Protocol  string // by the first payload bytes: tls, plaintext, undecided or unknown
	RTTMicros int64  // smoothed round-trip time; 0 when not measured
	BytesIn   uint64 // from the client, as ss(8) shows them
	BytesOut  uint64 // that the client acknowledged

	UnknownTags kmsg.Tags
}

// leastDescribedConnection is the size of a connection whose fields are all empty.
const leastDescribedConnection = 4 + 4 + 1 + 4 + 4 + 2 + 5*8 + 8 + 3 + 1

func (v *DescribeConnectionsRequest) fields(c *codec) {
	c.nullableString(&v.PrincipalFilter)
	c.nullableString(&v.AddressFilter)
	c.nullableString(&v.ListenerFilter)
	c.nullableString(&v.ProtocolFilter)
	c.nullableString(&v.SoftwareFilter)
	c.int32(&v.PageSize)
	c.nullableBytes(&v.Cursor)
	c.bool(&v.Kernel)
	c.tags(&v.UnknownTags)
}

func (v *DescribeConnectionsResponse) fields(c *codec) {
	c.int32(&v.ThrottleMillis)
	c.int16(&v.ErrorCode)
	c.nullableString(&v.ErrorMessage)
	c.int32(&v.NodeID)
	c.int64(&v.Total)
	c.nullableBytes(&v.NextCursor)
	c.string(&v.KernelSource)
	c.string(&v.KernelWhy)
	array(c, &v.Connections, leastDescribedConnection, (*DescribeConnectionsResponseConnection).fields)
	c.tags(&v.UnknownTags)
}

func (v *DescribeConnectionsResponseConnection) fields(c *codec) {
	c.string(&v.ConnectionID)
	c.string(&v.Principal)
	c.string(&v.PrincipalType)
	c.string(&v.ClientAddress)
	c.int32(&v.ClientPort)
	c.string(&v.LocalAddress)
	c.int32(&v.LocalPort)
	c.string(&v.ListenerName)
	c.string(&v.SecurityProtocol)
	c.string(&v.SoftwareName)
	c.string(&v.SoftwareVersion)
	c.nullableString(&v.ClientID)
	c.string(&v.State)
	c.int64(&v.ConnectedSince)
	c.int64(&v.LastActive)
	c.int64(&v.IdleMillis)
	c.int64(&v.BytesIn)
	c.int64(&v.BytesOut)
	c.uint64(&v.SocketCookie)
	nullable(c, &v.TLS, (*DescribeConnectionsResponseTLS).fields)
	nullable(c, &v.SASL, (*DescribeConnectionsResponseSASL).fields)
	nullable(c, &v.Kernel, (*DescribeConnectionsResponseKernel).fields)
	c.tags(&v.UnknownTags)
}

func (v *DescribeConnectionsResponseTLS) fields(c *codec) {
	c.string(&v.ProtocolVersion)
	c.string(&v.CipherSuite)
	c.string(&v.ServerName)
	c.string(&v.PeerSubject)
	c.string(&v.PeerSerial)
	c.int64(&v.PeerNotAfter)
	c.tags(&v.UnknownTags)
}

func (v *DescribeConnectionsResponseSASL) fields(c *codec) {
	c.string(&v.Mechanism)
	c.int64(&v.AuthenticatedSince)
	c.tags(&v.UnknownTags)
}

func (v *DescribeConnectionsResponseKernel) fields(c *codec) {
	c.string(&v.State)
	c.string(&v.Protocol)
	c.int64(&v.RTTMicros)
	c.uint64(&v.BytesIn)
	c.uint64(&v.BytesOut)
	c.tags(&v.UnknownTags)
}

var (
	_ kmsg.Request          = (*DescribeConnectionsRequest)(nil)
	_ kmsg.ThrottleResponse = (*DescribeConnectionsResponse)(nil)
)

// NewPtrDescribeConnectionsRequest returns a request without filters, for the first page, under the standard key.
func NewPtrDescribeConnectionsRequest() *DescribeConnectionsRequest {
	return new(DescribeConnectionsRequest)
}

// NewPtrDescribeConnectionsResponse returns an empty response.
func NewPtrDescribeConnectionsResponse() *DescribeConnectionsResponse {
	return new(DescribeConnectionsResponse)
}

// SetKey moves the request, and the response it expects, to another API key.
func (v *DescribeConnectionsRequest) SetKey(key int16) { v.key = key }

// Key is the API key: 10001 unless [DescribeConnectionsRequest.SetKey] moved it.
func (v *DescribeConnectionsRequest) Key() int16 { return keyOr(v.key, DefaultDescribeConnectionsKey) }

// MaxVersion is the newest version that this package can write and read.
func (*DescribeConnectionsRequest) MaxVersion() int16 { return 0 }

// SetVersion sets the version of the request and of the response it expects.
func (v *DescribeConnectionsRequest) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *DescribeConnectionsRequest) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*DescribeConnectionsRequest) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*DescribeConnectionsRequest) Default() {}

// AppendTo appends the request's body to dst.
func (v *DescribeConnectionsRequest) AppendTo(dst []byte) []byte { return appendTo(dst, v.fields) }

// ReadFrom reads the request's body; bytes after it are ignored, as Kafka does.
func (v *DescribeConnectionsRequest) ReadFrom(src []byte) error { return readFrom(src, v.fields) }

// ResponseKind returns an empty response of the request's key and version.
func (v *DescribeConnectionsRequest) ResponseKind() kmsg.Response {
	return &DescribeConnectionsResponse{Version: v.Version, key: v.key}
}

// RequestWith sends the request with r and returns the response in its own type.
func (v *DescribeConnectionsRequest) RequestWith(ctx context.Context, r kmsg.Requestor) (*DescribeConnectionsResponse, error) {
	return requestWith[*DescribeConnectionsResponse](ctx, r, v)
}

// Key is the API key of the request this answers.
func (v *DescribeConnectionsResponse) Key() int16 { return keyOr(v.key, DefaultDescribeConnectionsKey) }

// MaxVersion is the newest version that this package can write and read.
func (*DescribeConnectionsResponse) MaxVersion() int16 { return 0 }

// SetVersion sets the version.
func (v *DescribeConnectionsResponse) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *DescribeConnectionsResponse) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*DescribeConnectionsResponse) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*DescribeConnectionsResponse) Default() {}

// AppendTo appends the response's body to dst.
func (v *DescribeConnectionsResponse) AppendTo(dst []byte) []byte { return appendTo(dst, v.fields) }

// ReadFrom reads the response's body.
func (v *DescribeConnectionsResponse) ReadFrom(src []byte) error { return readFrom(src, v.fields) }

// RequestKind returns an empty request of the response's key and version.
func (v *DescribeConnectionsResponse) RequestKind() kmsg.Request {
	return &DescribeConnectionsRequest{Version: v.Version, key: v.key}
}

// Throttle returns how long the broker throttles the client, and that a client throttles itself after the response.
func (v *DescribeConnectionsResponse) Throttle() (int32, bool) { return v.ThrottleMillis, true }

// SetThrottle sets how long the broker throttles the client.
func (v *DescribeConnectionsResponse) SetThrottle(millis int32) { v.ThrottleMillis = millis }
