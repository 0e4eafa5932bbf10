package protocol

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeClientConfigsRequest asks one broker which configurations its clients have pushed to it (KIP-1324), page by
// page. It is answered where client.config.policy.class.name names a policy that keeps them. A nil filter lets every
// client pass; filters that are set must all match.
type DescribeClientConfigsRequest struct {
	Version int16 // 0 only

	PrincipalFilter *string // Type:name, compared exactly
	AddressFilter   *string // an IP address or a CIDR prefix
	ClientIDFilter  *string // compared exactly
	ListenerFilter  *string // in any case
	SoftwareFilter  *string // software name, compared exactly
	AmbiguousOnly   bool    // only clients that cannot be told apart and have pushed different configurations
	WithEntries     bool    // with what is in the configurations, not only who pushed how much
	AfterID         int64   // clients after this one: 0 asks for the first page
	Most            int32   // clients in an answer; 0 is the broker's choice, and it may send fewer

	UnknownTags kmsg.Tags

	key int16
}

// DescribeClientConfigsResponse is one page of what a broker keeps, in the order of ids.
type DescribeClientConfigsResponse struct {
	Version int16

	ThrottleMillis int32   // for how long the broker throttles the client, in milliseconds; always 0 today
	ErrorCode      int16   // Kafka's error code; 0: none
	ErrorMessage   *string // what is wrong, in words; nil without an error
	NodeID         int32   // of the broker that answers
	NextID         int64   // AfterID of the next page; 0: there is none
	Time           int64   // of the answer, by the broker's clock: milliseconds since 1970
	Clients        []DescribeClientConfigsResponseClient

	UnknownTags kmsg.Tags

	key int16
}

// DescribeClientConfigsResponseClient is what was pushed by clients that have all of this in common. Texts that clients
// chose are fit to be shown: control characters and invalid UTF-8 are escaped.
type DescribeClientConfigsResponseClient struct {
	ID               int64  // of this broker's store; never given to another client
	Principal        string // type and name, as in User:alice
	ClientAddress    string // as Java prints addresses
	ClientID         string // "" when it never sent one
	ListenerName     string // in upper case
	SecurityProtocol string // PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL
	SoftwareName     string // "" when the client has not named itself
	SoftwareVersion  string // likewise
	Connections      int32  // that it has open now; -1 where nobody tells
	More             int32  // configurations beyond those that are kept
	// Configurations are the latest first. More than one: clients that cannot be told apart have pushed different ones.
	Configurations []DescribeClientConfigsResponseConfiguration

	UnknownTags kmsg.Tags
}

// DescribeClientConfigsResponseConfiguration is one that was pushed. Times are milliseconds since 1970 by the broker's
// clock.
type DescribeClientConfigsResponseConfiguration struct {
	Bytes        int32  // UTF-8 bytes of keys and values, as they were pushed
	FirstPushed  int64  // when it came first
	LastPushed   int64  // when it came last
	Pushes       int64  // how often it came
	ConnectionID string // over which it came last
	Open         bool   // that connection is still open
	Entries      []DescribeClientConfigsResponseEntry

	UnknownTags kmsg.Tags
}

// DescribeClientConfigsResponseEntry is one key of a configuration, in the order of the push.
type DescribeClientConfigsResponseEntry struct {
	Key      string // its name, as Kafka's clients call it
	Value    string // a placeholder where it is redacted
	Type     int8   // as it was pushed: an id of DescribeConfigs
	Default  bool   // the client's user has not set it
	Redacted bool   // it looked like a secret

	UnknownTags kmsg.Tags
}

// The sizes of elements whose fields are all empty.
const (
	leastClientConfigs = 8 + 7 + 4 + 4 + 1 + 1
	leastConfiguration = 4 + 8 + 8 + 8 + 1 + 1 + 1 + 1
	leastPushedEntry   = 1 + 1 + 1 + 1 + 1 + 1
)

func (v *DescribeClientConfigsRequest) fields(c *codec) {
	c.nullableString(&v.PrincipalFilter)
	c.nullableString(&v.AddressFilter)
	c.nullableString(&v.ClientIDFilter)
	c.nullableString(&v.ListenerFilter)
	c.nullableString(&v.SoftwareFilter)
	c.bool(&v.AmbiguousOnly)
	c.bool(&v.WithEntries)
	c.int64(&v.AfterID)
	c.int32(&v.Most)
	c.tags(&v.UnknownTags)
}

func (v *DescribeClientConfigsResponse) fields(c *codec) {
	c.int32(&v.ThrottleMillis)
	c.int16(&v.ErrorCode)
	c.nullableString(&v.ErrorMessage)
	c.int32(&v.NodeID)
	c.int64(&v.NextID)
	c.int64(&v.Time)
	array(c, &v.Clients, leastClientConfigs, (*DescribeClientConfigsResponseClient).fields)
	c.tags(&v.UnknownTags)
}

func (v *DescribeClientConfigsResponseClient) fields(c *codec) {
	c.int64(&v.ID)
	c.string(&v.Principal)
	c.string(&v.ClientAddress)
	c.string(&v.ClientID)
	c.string(&v.ListenerName)
	c.string(&v.SecurityProtocol)
	c.string(&v.SoftwareName)
	c.string(&v.SoftwareVersion)
	c.int32(&v.Connections)
	c.int32(&v.More)
	array(c, &v.Configurations, leastConfiguration, (*DescribeClientConfigsResponseConfiguration).fields)
	c.tags(&v.UnknownTags)
}

func (v *DescribeClientConfigsResponseConfiguration) fields(c *codec) {
	c.int32(&v.Bytes)
	c.int64(&v.FirstPushed)
	c.int64(&v.LastPushed)
	c.int64(&v.Pushes)
	c.string(&v.ConnectionID)
	c.bool(&v.Open)
	array(c, &v.Entries, leastPushedEntry, (*DescribeClientConfigsResponseEntry).fields)
	c.tags(&v.UnknownTags)
}

func (v *DescribeClientConfigsResponseEntry) fields(c *codec) {
	c.string(&v.Key)
	c.string(&v.Value)
	c.int8(&v.Type)
	c.bool(&v.Default)
	c.bool(&v.Redacted)
	c.tags(&v.UnknownTags)
}

var (
	_ kmsg.Request          = (*DescribeClientConfigsRequest)(nil)
	_ kmsg.ThrottleResponse = (*DescribeClientConfigsResponse)(nil)
)

// NewPtrDescribeClientConfigsRequest returns a request without filters, for the first page of all clients, under the standard key.
func NewPtrDescribeClientConfigsRequest() *DescribeClientConfigsRequest {
	return new(DescribeClientConfigsRequest)
}

// NewPtrDescribeClientConfigsResponse returns an empty response.
func NewPtrDescribeClientConfigsResponse() *DescribeClientConfigsResponse {
	return new(DescribeClientConfigsResponse)
}

// SetKey moves the request, and the response it expects, to another API key.
func (v *DescribeClientConfigsRequest) SetKey(key int16) { v.key = key }

// Key is the API key: 10007 unless [DescribeClientConfigsRequest.SetKey] moved it.
func (v *DescribeClientConfigsRequest) Key() int16 {
	return keyOr(v.key, DefaultDescribeClientConfigsKey)
}

// MaxVersion is the newest version that this package can write and read.
func (*DescribeClientConfigsRequest) MaxVersion() int16 { return 0 }

// SetVersion sets the version of the request and of the response it expects.
func (v *DescribeClientConfigsRequest) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *DescribeClientConfigsRequest) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*DescribeClientConfigsRequest) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*DescribeClientConfigsRequest) Default() {}

// AppendTo appends the request's body to dst.
func (v *DescribeClientConfigsRequest) AppendTo(dst []byte) []byte {
	return appendTo(dst, v.fields)
}

// ReadFrom reads the request's body; bytes after it are ignored, as Kafka does.
func (v *DescribeClientConfigsRequest) ReadFrom(src []byte) error { return readFrom(src, v.fields) }

// ResponseKind returns an empty response of the request's key and version.
func (v *DescribeClientConfigsRequest) ResponseKind() kmsg.Response {
	return &DescribeClientConfigsResponse{Version: v.Version, key: v.key}
}

// RequestWith sends the request with r and returns the response in its own type.
func (v *DescribeClientConfigsRequest) RequestWith(ctx context.Context, r kmsg.Requestor) (*DescribeClientConfigsResponse, error) {
	return requestWith[*DescribeClientConfigsResponse](ctx, r, v)
}

// Key is the API key of the request this answers.
func (v *DescribeClientConfigsResponse) Key() int16 {
	return keyOr(v.key, DefaultDescribeClientConfigsKey)
}

// MaxVersion is the newest version that this package can write and read.
func (*DescribeClientConfigsResponse) MaxVersion() int16 { return 0 }

// SetVersion sets the version.
func (v *DescribeClientConfigsResponse) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *DescribeClientConfigsResponse) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*DescribeClientConfigsResponse) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*DescribeClientConfigsResponse) Default() {}

// AppendTo appends the response's body to dst.
func (v *DescribeClientConfigsResponse) AppendTo(dst []byte) []byte {
	return appendTo(dst, v.fields)
}

// ReadFrom reads the response's body.
func (v *DescribeClientConfigsResponse) ReadFrom(src []byte) error {
	return readFrom(src, v.fields)
}

// RequestKind returns an empty request of the response's key and version.
func (v *DescribeClientConfigsResponse) RequestKind() kmsg.Request {
	return &DescribeClientConfigsRequest{Version: v.Version, key: v.key}
}

// Throttle returns how long the broker throttles the client, and that a client throttles itself after the response.
func (v *DescribeClientConfigsResponse) Throttle() (int32, bool) { return v.ThrottleMillis, true }

// SetThrottle sets how long the broker throttles the client.
func (v *DescribeClientConfigsResponse) SetThrottle(millis int32) { v.ThrottleMillis = millis }
