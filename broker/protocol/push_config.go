package protocol

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// CodeConfigTooLarge is CONFIG_TOO_LARGE, the answer to a push of more bytes than client.config.max.bytes. KIP-1324 gives
// the error no number; 137 is the first that Kafka 4.4 has not given to another. Not retriable.
const CodeConfigTooLarge int16 = 137

// The types of configuration values, with the numbers of DescribeConfigs. KIP-1324 says "ConfigDef.Type" and gives no
// numbers, so that another client's may mean something else: a broker keeps whatever byte it is sent.
const (
	ConfigTypeUnknown int8 = iota
	ConfigTypeBoolean
	ConfigTypeString
	ConfigTypeInt
	ConfigTypeShort
	ConfigTypeLong
	ConfigTypeDouble
	ConfigTypeList
	ConfigTypeClass
	ConfigTypePassword
)

// PushConfigRequest tells a broker what a client is configured with (KIP-1324): once in the client's life, before its
// first other request.
type PushConfigRequest struct {
	Version int16 // 0 only

	Configs []PushConfigRequestConfig // a client that has none to tell sends no request

	UnknownTags kmsg.Tags

	key int16
}

// PushConfigRequestConfig is one configuration of a client.
type PushConfigRequestConfig struct {
	Key       string // its name, as Kafka's clients call it
	Value     string // as text; a null cannot be pushed
	Type      int8   // see [ConfigTypeUnknown] and those after it; any byte may come
	IsDefault bool   // the user has not set it

	UnknownTags kmsg.Tags
}

// PushConfigResponse says whether the broker took what it was told.
type PushConfigResponse struct {
	Version int16

	ThrottleMillis int32   // for how long the broker throttles the client, in milliseconds; always 0 today
	ErrorCode      int16   // Kafka's error code; 0: none
	ErrorMessage   *string // what is wrong, in words; nil without an error

	UnknownTags kmsg.Tags

	key int16
}

// leastPushedConfig is the size of a configuration whose fields are all empty.
const leastPushedConfig = 1 + 1 + 1 + 1 + 1

func (v *PushConfigRequest) fields(c *codec) {
	array(c, &v.Configs, leastPushedConfig, (*PushConfigRequestConfig).fields)
	c.tags(&v.UnknownTags)
}

func (v *PushConfigRequestConfig) fields(c *codec) {
	c.string(&v.Key)
	c.string(&v.Value)
	c.int8(&v.Type)
	c.bool(&v.IsDefault)
	c.tags(&v.UnknownTags)
}

func (v *PushConfigResponse) fields(c *codec) {
	c.int32(&v.ThrottleMillis)
	c.int16(&v.ErrorCode)
	c.nullableString(&v.ErrorMessage)
	c.tags(&v.UnknownTags)
}

var (
	_ kmsg.Request          = (*PushConfigRequest)(nil)
	_ kmsg.ThrottleResponse = (*PushConfigResponse)(nil)
)

// NewPtrPushConfigRequest returns an empty request under the standard key.
func NewPtrPushConfigRequest() *PushConfigRequest { return new(PushConfigRequest) }

// NewPtrPushConfigResponse returns an empty response.
func NewPtrPushConfigResponse() *PushConfigResponse { return new(PushConfigResponse) }

// SetKey moves the request, and the response it expects, to another API key.
func (v *PushConfigRequest) SetKey(key int16) { v.key = key }

// Key is the API key: 95 unless [PushConfigRequest.SetKey] moved it.
func (v *PushConfigRequest) Key() int16 { return keyOr(v.key, DefaultPushConfigKey) }

// MaxVersion is the newest version that this package can write and read.
func (*PushConfigRequest) MaxVersion() int16 { return 0 }

// SetVersion sets the version of the request and of the response it expects.
func (v *PushConfigRequest) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *PushConfigRequest) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*PushConfigRequest) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*PushConfigRequest) Default() {}

// AppendTo appends the request's body to dst.
func (v *PushConfigRequest) AppendTo(dst []byte) []byte { return appendTo(dst, v.fields) }

// ReadFrom reads the request's body; bytes after it are ignored, as Kafka does.
func (v *PushConfigRequest) ReadFrom(src []byte) error { return readFrom(src, v.fields) }

// ResponseKind returns an empty response of the request's key and version.
func (v *PushConfigRequest) ResponseKind() kmsg.Response {
	return &PushConfigResponse{Version: v.Version, key: v.key}
}

// RequestWith sends the request with r and returns the response in its own type.
func (v *PushConfigRequest) RequestWith(ctx context.Context, r kmsg.Requestor) (*PushConfigResponse, error) {
	return requestWith[*PushConfigResponse](ctx, r, v)
}

// Key is the API key of the request this answers.
func (v *PushConfigResponse) Key() int16 { return keyOr(v.key, DefaultPushConfigKey) }

// MaxVersion is the newest version that this package can write and read.
func (*PushConfigResponse) MaxVersion() int16 { return 0 }

// SetVersion sets the version.
func (v *PushConfigResponse) SetVersion(version int16) { v.Version = version }

// GetVersion returns the version.
func (v *PushConfigResponse) GetVersion() int16 { return v.Version }

// IsFlexible is true: version 0 is flexible.
func (*PushConfigResponse) IsFlexible() bool { return true }

// Default sets what an absent field stands for.
func (*PushConfigResponse) Default() {}

// AppendTo appends the response's body to dst.
func (v *PushConfigResponse) AppendTo(dst []byte) []byte { return appendTo(dst, v.fields) }

// ReadFrom reads the response's body.
func (v *PushConfigResponse) ReadFrom(src []byte) error { return readFrom(src, v.fields) }

// RequestKind returns an empty request of the response's key and version.
func (v *PushConfigResponse) RequestKind() kmsg.Request {
	return &PushConfigRequest{Version: v.Version, key: v.key}
}

// Throttle returns how long the broker throttles the client, and that a client throttles itself after the response.
func (v *PushConfigResponse) Throttle() (int32, bool) { return v.ThrottleMillis, true }

// SetThrottle sets how long the broker throttles the client.
func (v *PushConfigResponse) SetThrottle(millis int32) { v.ThrottleMillis = millis }
