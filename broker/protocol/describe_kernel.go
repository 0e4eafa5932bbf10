package protocol

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeKernelRequest asks one broker what the kernel counted of its connections, and what the broker itself counted
// at that moment.
type DescribeKernelRequest struct {
	Version int16 // 0 only

	ListenerFilter *string // in any case; nil asks for all listeners
	Sources        bool    // also the count of every client address

	UnknownTags kmsg.Tags

	key int16
}

// DescribeKernelResponse is one broker's answer. No number in it stands without Mode and Exactness.
type DescribeKernelResponse struct {
	Version int16

	ThrottleMillis int32   // for how long the broker throttles the client, in milliseconds; always 0 today
	ErrorCode      int16   // Kafka's error code; 0: none
	ErrorMessage   *string // what is wrong, in words; nil without an error
	NodeID         int32   // of the broker that answers

	Mode      string // full, sock_diag or off
	Exactness string // exact, lower bound or unavailable
	Why       string // what keeps the numbers from being exact; "" when nothing does
	Ports     []DescribeKernelResponsePort
	Group     DescribeKernelResponseGauge // all ports together, with high-water marks of its own
	Lost      []DescribeKernelResponseLost

	UnknownTags kmsg.Tags

	key int16
}

// DescribeKernelResponseGauge counts connections by the kernel's sight of them. Counters count from the broker's start.
type DescribeKernelResponseGauge struct {
	Established int64  // from the end of the TCP handshake, in the accept queue too, until the socket is closed
	TLS         int64  // by the first payload bytes, whatever the listener claims
	Plaintext   int64  // likewise
	Undecided   int64  // no payload yet
	Unknown     int64  // seeded, or first bytes that were not seen
	Opened      uint64 // became established since counting began
	Closed      uint64 // ended since counting began

	// Served sockets have sent payload to their client and have not begun to close; the Max fields are the most there
	// ever were at one instant.
	Served       int64
	ServedMax    int64  // the most of Served at one instant; a proof if it is above a limit
	ServedTLS    int64  // of Served: those that speak TLS
	ServedTLSMax int64  // the most of ServedTLS at one instant
	ServedTotal  uint64 // were ever sent payload

	UnknownTags kmsg.Tags
}

// DescribeKernelResponsePort is one listening port.
type DescribeKernelResponsePort struct {
	Port         int32  // that is listened on
	ListenerName string // "" for a port of another program
	Gauge        DescribeKernelResponseGauge
	Seeded       uint64 // were there before counting began; not part of Opened
	BytesIn      uint64 // from clients, as ss(8) shows them: ciphertext over TLS, the end of a stream counts as one
	BytesOut     uint64 // that clients acknowledged, counted the same way
	AcceptQueue  int64  // established, not yet accepted by the program
	Closing      int64  // of Established: the program has closed it, and TCP has not ended yet
	Backlog      int64  // the limit of the accept queue
	Overflows    int64  // connections dropped because the accept queue was full
	Sources      []DescribeKernelResponseSource
	Broker       *DescribeKernelResponseBroker // nil for a port of another program

	UnknownTags kmsg.Tags
}

// DescribeKernelResponseSource is how many established connections one client address holds.
type DescribeKernelResponseSource struct {
	Address string // as Java prints addresses
	Count   int64  // established connections

	UnknownTags kmsg.Tags
}

// DescribeKernelResponseLost is a number of events that were not counted, by cause.
type DescribeKernelResponseLost struct {
	Cause string // connections, sources, verdicts, marks or drift
	Count uint64 // events

	UnknownTags kmsg.Tags
}

// DescribeKernelResponseBroker is the broker's own count of a listener, with the classes of sockets that the kernel
// calls established and a list of connections does not show.
type DescribeKernelResponseBroker struct {
	Listed      int64  // in the connection table, those in a TLS handshake or SASL exchange included
	Handshaking int64  // of Listed: TLS has not ended
	Held        int64  // accepted, not yet admitted: in the acceptor's hand or held back by a rate limit
	Queued      int64  // admitted, waiting for their network thread
	Accepted    uint64 // since the broker's start
	Closed      uint64 // since the broker's start

	UnknownTags kmsg.Tags
}

// The sizes of structs whose fields are all empty.
const (
	leastKernelGauge  = 12*8 + 1
	leastKernelPort   = 4 + 1 + leastKernelGauge + 7*8 + 1 + 1 + 1
	leastKernelSource = 1 + 8 + 1
	leastKernelLost   = 1 + 8 + 1
)

func (v *DescribeKernelRequest) fields(c *codec) {
	c.nullableString(&v.ListenerFilter)
	c.bool(&v.Sources)
	c.tags(&v.UnknownTags)
}

func (v *DescribeKernelResponse) fields(c *codec) {
	c.int32(&v.ThrottleMillis)
	c.int16(&v.ErrorCode)
	c.nullableString(&v.ErrorMessage)
	c.int32(&v.NodeID)
	c.string(&v.Mode)
	c.string(&v.Exactness)
	c.string(&v.Why)
	array(c, &v.Ports, leastKernelPort, (*DescribeKernelResponsePort).fields)
	v.Group.fields(c)
	array(c, &v.Lost, leastKernelLost, (*DescribeKernelResponseLost).fields)
	c.tags(&v.UnknownTags)
}

func (v *DescribeKernelResponseGauge) fields(c *codec) {
	c.int64(&v.Established)
	c.int64(&v.TLS)
	c.int64(&v.Plaintext)
	c.int64(&v.Undecided)
	c.int64(&v.Unknown)
	c.uint64(&v.Opened)
	c.uint64(&v.Closed)
	c.int64(&v.Served)
	c.int64(&v.ServedMax)
	c.int64(&v.ServedTLS)
	c.int64(&v.ServedTLSMax)
	c.uint64(&v.ServedTotal)
	c.tags(&v.UnknownTags)
}

func (v *DescribeKernelResponsePort) fields(c *codec) {
	c.int32(&v.Port)
	c.string(&v.ListenerName)
	v.Gauge.fields(c)
	c.uint64(&v.Seeded)
	c.uint64(&v.BytesIn)
	c.uint64(&v.BytesOut)
	c.int64(&v.AcceptQueue)
	c.int64(&v.Closing)
	c.int64(&v.Backlog)
	c.int64(&v.Overflows)
	array(c, &v.Sources, leastKernelSource, (*DescribeKernelResponseSource).fields)
	nullable(c, &v.Broker, (*DescribeKernelResponseBroker).fields)
	c.tags(&v.UnknownTags)
}

func (v *DescribeKernelResponseSource) fields(c *codec) {
	c.string(&v.Address)
	c.int64(&v.Count)
	c.tags(&v.UnknownTags)
}

func (v *DescribeKernelResponseLost) fields(c *codec) {
	c.string(&v.Cause)
	c.uint64(&v.Count)
	c.tags(&v.UnknownTags)
}

func (v *DescribeKernelResponseBroker) fields(c *codec) {
	c.int64(&v.Listed)
	c.int64(&v.Handshaking)
	c.int64(&v.Held)
	c.int64(&v.Queued)
	c.uint64(&v.Accepted)
	c.uint64(&v.Closed)
	c.tags(&v.UnknownTags)
}

var (
	_ kmsg.Request          = (*DescribeKernelRequest)(nil)
	_ kmsg.ThrottleResponse = (*DescribeKernelResponse)(nil)
)

// NewPtrDescribeKernelRequest returns a request for all listeners, under the standard key.
func NewPtrDescribeKernelRequest() *DescribeKernelRequest { return new(DescribeKernelRequest) }

// NewPtrDescribeKernelResponse returns an empty response.
func NewPtrDescribeKernelResponse() *DescribeKernelResponse { return new(DescribeKernelResponse) }

// SetKey moves the request, and the response it expects, to another API key.
func (v *DescribeKernelRequest) SetKey(key int16) { v.key = key }

// Key is the API key: 10002 unless [DescribeKernelRequest.SetKey] moved it.
func (v *DescribeKernelRequest) Key() int16 { return keyOr(v.key, DefaultDescribeKernelKey) }

// MaxVersion is the newest version that this package can write and read.
func (*DescribeKernelRequest) MaxVersion() int16 { return 0 }

// SetVersion sets the version of the request and of the response it expects.
func (v *DescribeKernelRequest) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *DescribeKernelRequest) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*DescribeKernelRequest) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*DescribeKernelRequest) Default() {}

// AppendTo appends the request's body to dst.
func (v *DescribeKernelRequest) AppendTo(dst []byte) []byte { return appendTo(dst, v.fields) }

// ReadFrom reads the request's body; bytes after it are ignored, as Kafka does.
func (v *DescribeKernelRequest) ReadFrom(src []byte) error { return readFrom(src, v.fields) }

// ResponseKind returns an empty response of the request's key and version.
func (v *DescribeKernelRequest) ResponseKind() kmsg.Response {
	return &DescribeKernelResponse{Version: v.Version, key: v.key}
}

// RequestWith sends the request with r and returns the response in its own type.
func (v *DescribeKernelRequest) RequestWith(ctx context.Context, r kmsg.Requestor) (*DescribeKernelResponse, error) {
	return requestWith[*DescribeKernelResponse](ctx, r, v)
}

// Key is the API key of the request this answers.
func (v *DescribeKernelResponse) Key() int16 { return keyOr(v.key, DefaultDescribeKernelKey) }

// MaxVersion is the newest version that this package can write and read.
func (*DescribeKernelResponse) MaxVersion() int16 { return 0 }

// SetVersion sets the version.
func (v *DescribeKernelResponse) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *DescribeKernelResponse) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*DescribeKernelResponse) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*DescribeKernelResponse) Default() {}

// AppendTo appends the response's body to dst.
func (v *DescribeKernelResponse) AppendTo(dst []byte) []byte { return appendTo(dst, v.fields) }

// ReadFrom reads the response's body.
func (v *DescribeKernelResponse) ReadFrom(src []byte) error { return readFrom(src, v.fields) }

// RequestKind returns an empty request of the response's key and version.
func (v *DescribeKernelResponse) RequestKind() kmsg.Request {
	return &DescribeKernelRequest{Version: v.Version, key: v.key}
}

// Throttle returns how long the broker throttles the client, and that a client throttles itself after the response.
func (v *DescribeKernelResponse) Throttle() (int32, bool) { return v.ThrottleMillis, true }

// SetThrottle sets how long the broker throttles the client.
func (v *DescribeKernelResponse) SetThrottle(millis int32) { v.ThrottleMillis = millis }
