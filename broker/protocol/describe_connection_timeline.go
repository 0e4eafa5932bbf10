package protocol

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeConnectionTimelineRequest asks one broker what happened to connections, step by step: open ones, those that ended of
// late, and sockets that were refused. A nil filter lets every connection pass; filters that are set must all match.
type DescribeConnectionTimelineRequest struct {
	Version int16 // 0 only

	ConnectionID   *string // as listings show it
	AddressFilter  *string // an IP address or a CIDR prefix
	ClientPort     int32   // the client's; 0: any
	ListenerFilter *string // in any case
	Most           int32   // so many at most, those that came last; 0: 10, and never more than 1,000

	UnknownTags kmsg.Tags

	key int16
}

// DescribeConnectionTimelineResponse is one broker's answer, the connection that came last at the end.
type DescribeConnectionTimelineResponse struct {
	Version int16

	ThrottleMillis int32   // for how long the broker throttles the client, in milliseconds; always 0 today
	ErrorCode      int16   // Kafka's error code; 0: none
	ErrorMessage   *string // what is wrong, in words; nil without an error
	NodeID         int32   // of the broker that answers
	Time           int64   // of the answer, by the broker's clock: microseconds since 1970
	CompleteSince  int64   // what ended later than this it remembers completely, milliseconds since 1970; 0: it has forgotten none
	KernelWhy      string  // why the kernel's part is rounded; "" when it is exact
	Matched        int64   // connections that passed the filters, whatever Most says
	Connections    []DescribeConnectionTimelineResponseConnection

	UnknownTags kmsg.Tags

	key int16
}

// DescribeConnectionTimelineResponseConnection is one connection and what happened to it.
type DescribeConnectionTimelineResponseConnection struct {
	ConnectionID     string  // "" where the socket was refused before it became a connection
	Principal        string  // type and name, as in User:alice; "" while or where nobody is known
	ClientAddress    string  // as Java prints addresses
	ClientPort       int32   // the client's
	ListenerName     string  // in upper case
	SecurityProtocol string  // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, as the listener is configured
	SoftwareName     string  // "" when the client has not named itself
	SoftwareVersion  string  // "" when the client has not named itself
	ClientID         *string // of the latest request; nil without one
	State            string  // as DescribeConnections has it while open; closed, or refused: it never had a slot
	Reason           string  // why it ended, one of a closed list in snake case; "" while open
	ClosedBy         string  // client, broker or operator; "" while open
	ClosedFor        string  // of an operator: the principal who asked and where from; ""
	Events           []DescribeConnectionTimelineResponseEvent

	UnknownTags kmsg.Tags
}

// States of a connection that is no longer open.
const (
	StateClosed  = "closed"
	StateRefused = "refused"
)

// Who ended a connection.
const (
	ClosedByClient   = "client"
	ClosedByBroker   = "broker"
	ClosedByOperator = "operator"
)

// DescribeConnectionTimelineResponseEvent is one thing that happened to a connection. Events are in order of time.
type DescribeConnectionTimelineResponseEvent struct {
	Name      string // see the Event constants
	At        int64  // microseconds since 1970, by the broker's clock
	Micros    int64  // how long a wait was, or a socket was held, until At; of the last activity how long it has been idle since; else 0
	Limit     string // the name of the limit that was waited for; ""
	Scope     string // of that limit: broker, listener or address; ""
	CountedBy string // kernel or broker
	Exactness string // exact, or rounded to a tick of the kernel's clock
	Detail    string // more of it, in words; ""

	UnknownTags kmsg.Tags
}

// What happens to a connection, in the order in which it usually does.
const (
	EventEstablished   = "established"     // TCP's handshake has ended; it waits in the accept queue
	EventAccepted      = "accepted"        // the acceptor has taken it from the kernel
	EventWaitedRate    = "waited for rate" // the delay of a rate is over
	EventWaitedSlot    = "waited for slot" // a slot was free
	EventAdmitted      = "admitted"        // it counts
	EventRegistered    = "registered"      // its network thread has it; it is listed
	EventHandshake     = "tls done"
	EventAuthenticated = "authenticated"
	EventFirstRequest  = "first request"
	EventLastActive    = "last active" // bytes came or went last
	EventClosed        = "closed"
)

// The sizes of structs whose fields are all empty.
const (
	leastTimeline      = 3 + 4 + 4 + 1 + 4 + 1 + 1
	leastTimelineEvent = 1 + 2*8 + 5 + 1
)

func (v *DescribeConnectionTimelineRequest) fields(c *codec) {
	c.nullableString(&v.ConnectionID)
	c.nullableString(&v.AddressFilter)
	c.int32(&v.ClientPort)
	c.nullableString(&v.ListenerFilter)
	c.int32(&v.Most)
	c.tags(&v.UnknownTags)
}

func (v *DescribeConnectionTimelineResponse) fields(c *codec) {
	c.int32(&v.ThrottleMillis)
	c.int16(&v.ErrorCode)
	c.nullableString(&v.ErrorMessage)
	c.int32(&v.NodeID)
	c.int64(&v.Time)
	c.int64(&v.CompleteSince)
	c.string(&v.KernelWhy)
	c.int64(&v.Matched)
	array(c, &v.Connections, leastTimeline, (*DescribeConnectionTimelineResponseConnection).fields)
	c.tags(&v.UnknownTags)
}

func (v *DescribeConnectionTimelineResponseConnection) fields(c *codec) {
	c.string(&v.ConnectionID)
	c.string(&v.Principal)
	c.string(&v.ClientAddress)
	c.int32(&v.ClientPort)
	c.string(&v.ListenerName)
	c.string(&v.SecurityProtocol)
	c.string(&v.SoftwareName)
	c.string(&v.SoftwareVersion)
	c.nullableString(&v.ClientID)
	c.string(&v.State)
	c.string(&v.Reason)
	c.string(&v.ClosedBy)
	c.string(&v.ClosedFor)
	array(c, &v.Events, leastTimelineEvent, (*DescribeConnectionTimelineResponseEvent).fields)
	c.tags(&v.UnknownTags)
}

func (v *DescribeConnectionTimelineResponseEvent) fields(c *codec) {
	c.string(&v.Name)
	c.int64(&v.At)
	c.int64(&v.Micros)
	c.string(&v.Limit)
	c.string(&v.Scope)
	c.string(&v.CountedBy)
	c.string(&v.Exactness)
	c.string(&v.Detail)
	c.tags(&v.UnknownTags)
}

var (
	_ kmsg.Request          = (*DescribeConnectionTimelineRequest)(nil)
	_ kmsg.ThrottleResponse = (*DescribeConnectionTimelineResponse)(nil)
)

// NewPtrDescribeConnectionTimelineRequest returns a request without filters, for the latest connections, under the standard key.
func NewPtrDescribeConnectionTimelineRequest() *DescribeConnectionTimelineRequest {
	return new(DescribeConnectionTimelineRequest)
}

// NewPtrDescribeConnectionTimelineResponse returns an empty response.
func NewPtrDescribeConnectionTimelineResponse() *DescribeConnectionTimelineResponse {
	return new(DescribeConnectionTimelineResponse)
}

// SetKey moves the request, and the response it expects, to another API key.
func (v *DescribeConnectionTimelineRequest) SetKey(key int16) { v.key = key }

// Key is the API key: 10006 unless [DescribeConnectionTimelineRequest.SetKey] moved it.
func (v *DescribeConnectionTimelineRequest) Key() int16 {
	return keyOr(v.key, DefaultDescribeTimelineKey)
}

// MaxVersion is the newest version that this package can write and read.
func (*DescribeConnectionTimelineRequest) MaxVersion() int16 { return 0 }

// SetVersion sets the version of the request and of the response it expects.
func (v *DescribeConnectionTimelineRequest) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *DescribeConnectionTimelineRequest) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*DescribeConnectionTimelineRequest) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*DescribeConnectionTimelineRequest) Default() {}

// AppendTo appends the request's body to dst.
func (v *DescribeConnectionTimelineRequest) AppendTo(dst []byte) []byte {
	return appendTo(dst, v.fields)
}

// ReadFrom reads the request's body; bytes after it are ignored, as Kafka does.
func (v *DescribeConnectionTimelineRequest) ReadFrom(src []byte) error {
	return readFrom(src, v.fields)
}

// ResponseKind returns an empty response of the request's key and version.
func (v *DescribeConnectionTimelineRequest) ResponseKind() kmsg.Response {
	return &DescribeConnectionTimelineResponse{Version: v.Version, key: v.key}
}

// RequestWith sends the request with r and returns the response in its own type.
func (v *DescribeConnectionTimelineRequest) RequestWith(ctx context.Context, r kmsg.Requestor) (*DescribeConnectionTimelineResponse, error) {
	return requestWith[*DescribeConnectionTimelineResponse](ctx, r, v)
}

// Key is the API key of the request this answers.
func (v *DescribeConnectionTimelineResponse) Key() int16 {
	return keyOr(v.key, DefaultDescribeTimelineKey)
}

// MaxVersion is the newest version that this package can write and read.
func (*DescribeConnectionTimelineResponse) MaxVersion() int16 { return 0 }

// SetVersion sets the version.
func (v *DescribeConnectionTimelineResponse) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *DescribeConnectionTimelineResponse) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*DescribeConnectionTimelineResponse) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*DescribeConnectionTimelineResponse) Default() {}

// AppendTo appends the response's body to dst.
func (v *DescribeConnectionTimelineResponse) AppendTo(dst []byte) []byte {
	return appendTo(dst, v.fields)
}

// ReadFrom reads the response's body.
func (v *DescribeConnectionTimelineResponse) ReadFrom(src []byte) error {
	return readFrom(src, v.fields)
}

// RequestKind returns an empty request of the response's key and version.
func (v *DescribeConnectionTimelineResponse) RequestKind() kmsg.Request {
	return &DescribeConnectionTimelineRequest{Version: v.Version, key: v.key}
}

// Throttle returns how long the broker throttles the client, and that a client throttles itself after the response.
func (v *DescribeConnectionTimelineResponse) Throttle() (int32, bool) { return v.ThrottleMillis, true }

// SetThrottle sets how long the broker throttles the client.
func (v *DescribeConnectionTimelineResponse) SetThrottle(millis int32) { v.ThrottleMillis = millis }
