package protocol

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeLimitsRequest asks one broker for every limit on connections that it has: its value, where it was set, how much of it
// is in use, who waits for it, and what happens to the next connection.
type DescribeLimitsRequest struct {
	Version int16 // 0 only

	ListenerFilter *string // in any case; nil asks for all listeners
	AddressFilter  *string // an IP address or a CIDR prefix: client addresses in it; nil asks for all
	AddressLimit   int32   // how many client addresses at most, the busiest first; 0: 10, and never more than 1,000

	UnknownTags kmsg.Tags

	key int16
}

// DescribeLimitsResponse is one broker's answer. No number in it stands without the name of its source.
type DescribeLimitsResponse struct {
	Version int16

	ThrottleMillis int32   // for how long the broker throttles the client, in milliseconds; always 0 today
	ErrorCode      int16   // Kafka's error code; 0: none
	ErrorMessage   *string // what is wrong, in words; nil without an error
	NodeID         int32   // of the broker that answers
	Time           int64   // of the answer, by the broker's clock: milliseconds since 1970

	Limits       []DescribeLimitsResponseLimit
	Listeners    []DescribeLimitsResponseListener
	AddressCount int32 // client addresses that have connections or a limit of their own, and pass the filter
	Addresses    []DescribeLimitsResponseAddress

	UnknownTags kmsg.Tags

	key int16
}

// NoLimit is the value of a limit that is off, as Kafka has it.
const NoLimit = 1<<31 - 1

// The sources of a limit's value, in the words of Kafka's DescribeConfigs; the last is of AlterClientQuotas.
const (
	SourceDynamicBroker  = "dynamic broker"  // set for this broker while it ran
	SourceDynamicDefault = "dynamic default" // set for all brokers while they ran
	SourceStatic         = "static"          // given at the start
	SourceDefault        = "default"         // nobody has set it
	SourceClientQuota    = "client quota"    // of an ip entity, or of the default of all
)

// Who counted a number, and how far it may be trusted.
const (
	CountedByBroker  = "broker"
	CountedByKernel  = "kernel"
	ExactnessExact   = "exact"
	ExactnessLower   = "lower bound"
	ExactnessRounded = "rounded" // to a tick of the kernel's clock: 20 ms, or what a busy machine makes of it
	ExactnessUnknown = "unavailable"
)

// DescribeLimitsResponseLimit is one limit of the broker or of one of its listeners. That of addresses is what each address has
// that none of its own was set for; the addresses' own are in Addresses.
type DescribeLimitsResponseLimit struct {
	Name         string  // max.connections, max.ssl.connections, max.connections.per.ip, max.connection.creation.rate or connection_creation_rate
	ListenerName string  // in upper case; "" for one of the whole broker
	Unit         string  // connections, or connections/s
	Scope        string  // broker, listener or address: whose connections are counted together
	Value        int64   // 2147483647: no limit
	Source       string  // dynamic broker, dynamic default, static, default or client quota
	SetBy        string  // the config that gives the value: the broker's own where a listener has none; "" where nobody has set one
	InUse        float64 // in the limit's unit; of an address limit that of the busiest address
	CountedBy    string  // broker
	Exactness    string  // of InUse: exact, lower bound or unavailable

	UnknownTags kmsg.Tags
}

// The scopes of limits.
const (
	ScopeBroker   = "broker"
	ScopeListener = "listener"
	ScopeAddress  = "address"
)

// DescribeLimitsResponseListener is one listener: what it has admitted, who waits in front of it, in the order in which a client
// passes them, and what happens to the next one.
type DescribeLimitsResponseListener struct {
	ListenerName     string // in upper case
	SecurityProtocol string // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, as the listener is configured
	Port             int32  // that is listened on
	TLS              bool   // its connections count towards max.ssl.connections
	Protected        bool   // the inter-broker listener beside others: the broker's own limits do not hold it
	Connections      int64  // that have a slot, as the broker counts them; exact

	AcceptQueue DescribeLimitsResponseQueue
	Held        *DescribeLimitsResponseHeld // the socket that the acceptor has in its hand; nil: none
	Throttled   int64                       // sockets that are held for the rate of their address, then closed; broker, exact
	Queued      int64                       // admitted, waiting for their network thread; broker, exact

	// The share of time in which the acceptor was blocked, 0 to 1: over all, and as averages that decay over so many minutes.
	Blocked, BlockedOneMinute, BlockedFiveMinutes, BlockedFifteenMinutes float64

	Next DescribeLimitsResponseNext // for a client whose address has no connection yet

	UnknownTags kmsg.Tags
}

// DescribeLimitsResponseQueue is who is connected for the kernel and not yet accepted.
type DescribeLimitsResponseQueue struct {
	Length    int64  // connections
	Backlog   int64  // how many the kernel keeps; one more fits on Linux
	Overflows int64  // connections that found it full since counting began; -1: not counted
	CountedBy string // kernel
	Exactness string // exact, or unavailable: then the numbers are 0
	Why       string // what keeps them from being exact; "" when nothing does

	UnknownTags kmsg.Tags
}

// DescribeLimitsResponseHeld is a socket that is accepted and has no slot yet. Nothing is read from it or written to it.
type DescribeLimitsResponseHeld struct {
	Address     string // the client's, as Java prints addresses
	Since       int64  // milliseconds since 1970
	WaitsFor    string // what the limit is: the name of a limit, see DescribeLimitsResponseLimit; "": it is about to be admitted
	Scope       string // of that limit
	DelayMillis int64  // how long a rate holds it from Since on; 0 when only a slot is missing

	UnknownTags kmsg.Tags
}

// DescribeLimitsResponseNext is what happens to a connection that comes now, if nothing changes before.
type DescribeLimitsResponseNext struct {
	Outcome string // see the Next constants
	Limit   string // the name of the limit that is the cause; "" when admitted
	Scope   string // of that limit
	Millis  int64  // for how long, where a rate is the cause; an estimate: it grows with every connection that comes

	UnknownTags kmsg.Tags
}

// What can happen to the next connection.
const (
	NextAdmitted     = "admitted"
	NextWaitsForSlot = "waits for a slot" // no time limit: until a connection closes or a limit is raised
	NextWaitsForRate = "waits for a rate" // so many milliseconds, then for a slot if none is free
	NextClosedAtOnce = "closed at once"   // after it was accepted, without a byte
	NextHeldThenShut = "held, then closed"
)

// DescribeLimitsResponseAddress is one client address. What is counted there is counted over all listeners.
type DescribeLimitsResponseAddress struct {
	Address     string  // as Java prints addresses
	Connections int64   // that have a slot; broker, exact
	Max         int64   // connections; 2147483647: no limit
	MaxSource   string  // as Limit.Source
	MaxSetBy    string  // max.connections.per.ip, max.connections.per.ip.overrides, or ""
	Rate        int64   // connections/s; 2147483647: no limit
	RateSource  string  // client quota or default
	RateOwn     bool    // the quota is the address's own, not the default of all
	InUseRate   float64 // connections/s; 0 without a limit: they are not counted then

	Next DescribeLimitsResponseNext // on a listener that lets it in

	UnknownTags kmsg.Tags
}

// The sizes of structs whose fields are all empty.
const (
	leastLimit         = 8 + 2*8 + 1
	leastLimitQueue    = 3*8 + 3 + 1
	leastLimitNext     = 3 + 8 + 1
	leastLimitListener = 2 + 4 + 2 + 8 + leastLimitQueue + 1 + 2*8 + 4*8 + leastLimitNext + 1
	leastLimitAddress  = 1 + 2*8 + 2 + 8 + 1 + 1 + 8 + leastLimitNext + 1
)

func (v *DescribeLimitsRequest) fields(c *codec) {
	c.nullableString(&v.ListenerFilter)
	c.nullableString(&v.AddressFilter)
	c.int32(&v.AddressLimit)
	c.tags(&v.UnknownTags)
}

func (v *DescribeLimitsResponse) fields(c *codec) {
	c.int32(&v.ThrottleMillis)
	c.int16(&v.ErrorCode)
	c.nullableString(&v.ErrorMessage)
	c.int32(&v.NodeID)
	c.int64(&v.Time)
	array(c, &v.Limits, leastLimit, (*DescribeLimitsResponseLimit).fields)
	array(c, &v.Listeners, leastLimitListener, (*DescribeLimitsResponseListener).fields)
	c.int32(&v.AddressCount)
	array(c, &v.Addresses, leastLimitAddress, (*DescribeLimitsResponseAddress).fields)
	c.tags(&v.UnknownTags)
}

func (v *DescribeLimitsResponseLimit) fields(c *codec) {
	c.string(&v.Name)
	c.string(&v.ListenerName)
	c.string(&v.Unit)
	c.string(&v.Scope)
	c.int64(&v.Value)
	c.string(&v.Source)
	c.string(&v.SetBy)
	c.float64(&v.InUse)
	c.string(&v.CountedBy)
	c.string(&v.Exactness)
	c.tags(&v.UnknownTags)
}

func (v *DescribeLimitsResponseListener) fields(c *codec) {
	c.string(&v.ListenerName)
	c.string(&v.SecurityProtocol)
	c.int32(&v.Port)
	c.bool(&v.TLS)
	c.bool(&v.Protected)
	c.int64(&v.Connections)
	v.AcceptQueue.fields(c)
	nullable(c, &v.Held, (*DescribeLimitsResponseHeld).fields)
	c.int64(&v.Throttled)
	c.int64(&v.Queued)
	c.float64(&v.Blocked)
	c.float64(&v.BlockedOneMinute)
	c.float64(&v.BlockedFiveMinutes)
	c.float64(&v.BlockedFifteenMinutes)
	v.Next.fields(c)
	c.tags(&v.UnknownTags)
}

func (v *DescribeLimitsResponseQueue) fields(c *codec) {
	c.int64(&v.Length)
	c.int64(&v.Backlog)
	c.int64(&v.Overflows)
	c.string(&v.CountedBy)
	c.string(&v.Exactness)
	c.string(&v.Why)
	c.tags(&v.UnknownTags)
}

func (v *DescribeLimitsResponseHeld) fields(c *codec) {
	c.string(&v.Address)
	c.int64(&v.Since)
	c.string(&v.WaitsFor)
	c.string(&v.Scope)
	c.int64(&v.DelayMillis)
	c.tags(&v.UnknownTags)
}

func (v *DescribeLimitsResponseNext) fields(c *codec) {
	c.string(&v.Outcome)
	c.string(&v.Limit)
	c.string(&v.Scope)
	c.int64(&v.Millis)
	c.tags(&v.UnknownTags)
}

func (v *DescribeLimitsResponseAddress) fields(c *codec) {
	c.string(&v.Address)
	c.int64(&v.Connections)
	c.int64(&v.Max)
	c.string(&v.MaxSource)
	c.string(&v.MaxSetBy)
	c.int64(&v.Rate)
	c.string(&v.RateSource)
	c.bool(&v.RateOwn)
	c.float64(&v.InUseRate)
	v.Next.fields(c)
	c.tags(&v.UnknownTags)
}

var (
	_ kmsg.Request          = (*DescribeLimitsRequest)(nil)
	_ kmsg.ThrottleResponse = (*DescribeLimitsResponse)(nil)
)

// NewPtrDescribeLimitsRequest returns a request for all limits and the busiest addresses, under the standard key.
func NewPtrDescribeLimitsRequest() *DescribeLimitsRequest { return new(DescribeLimitsRequest) }

// NewPtrDescribeLimitsResponse returns an empty response.
func NewPtrDescribeLimitsResponse() *DescribeLimitsResponse { return new(DescribeLimitsResponse) }

// SetKey moves the request, and the response it expects, to another API key.
func (v *DescribeLimitsRequest) SetKey(key int16) { v.key = key }

// Key is the API key: 10004 unless [DescribeLimitsRequest.SetKey] moved it.
func (v *DescribeLimitsRequest) Key() int16 { return keyOr(v.key, DefaultDescribeLimitsKey) }

// MaxVersion is the newest version that this package can write and read.
func (*DescribeLimitsRequest) MaxVersion() int16 { return 0 }

// SetVersion sets the version of the request and of the response it expects.
func (v *DescribeLimitsRequest) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *DescribeLimitsRequest) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*DescribeLimitsRequest) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*DescribeLimitsRequest) Default() {}

// AppendTo appends the request's body to dst.
func (v *DescribeLimitsRequest) AppendTo(dst []byte) []byte { return appendTo(dst, v.fields) }

// ReadFrom reads the request's body; bytes after it are ignored, as Kafka does.
func (v *DescribeLimitsRequest) ReadFrom(src []byte) error { return readFrom(src, v.fields) }

// ResponseKind returns an empty response of the request's key and version.
func (v *DescribeLimitsRequest) ResponseKind() kmsg.Response {
	return &DescribeLimitsResponse{Version: v.Version, key: v.key}
}

// RequestWith sends the request with r and returns the response in its own type.
func (v *DescribeLimitsRequest) RequestWith(ctx context.Context, r kmsg.Requestor) (*DescribeLimitsResponse, error) {
	return requestWith[*DescribeLimitsResponse](ctx, r, v)
}

// Key is the API key of the request this answers.
func (v *DescribeLimitsResponse) Key() int16 { return keyOr(v.key, DefaultDescribeLimitsKey) }

// MaxVersion is the newest version that this package can write and read.
func (*DescribeLimitsResponse) MaxVersion() int16 { return 0 }

// SetVersion sets the version.
func (v *DescribeLimitsResponse) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *DescribeLimitsResponse) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*DescribeLimitsResponse) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*DescribeLimitsResponse) Default() {}

// AppendTo appends the response's body to dst.
func (v *DescribeLimitsResponse) AppendTo(dst []byte) []byte { return appendTo(dst, v.fields) }

// ReadFrom reads the response's body.
func (v *DescribeLimitsResponse) ReadFrom(src []byte) error { return readFrom(src, v.fields) }

// RequestKind returns an empty request of the response's key and version.
func (v *DescribeLimitsResponse) RequestKind() kmsg.Request {
	return &DescribeLimitsRequest{Version: v.Version, key: v.key}
}

// Throttle returns how long the broker throttles the client, and that a client throttles itself after the response.
func (v *DescribeLimitsResponse) Throttle() (int32, bool) { return v.ThrottleMillis, true }

// SetThrottle sets how long the broker throttles the client.
func (v *DescribeLimitsResponse) SetThrottle(millis int32) { v.ThrottleMillis = millis }
