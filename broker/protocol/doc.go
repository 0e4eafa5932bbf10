// Package protocol holds the Kafka messages that brokerlab speaks and franz-go's kmsg lacks, shaped like kmsg's own:
// ListClientConnections of KIP-1329, PushConfig of KIP-1324, and brokerlab's own DescribeConnections, DescribeKernel, DescribeClosedConnections,
// DescribeLimits, CloseConnections, DescribeConnectionTimeline, DescribeClientConfigs and DescribeMetadata.
//
// Each message lists its fields once, in wire order, in a method named fields; the same list writes and reads it.
// A message does not survive as a half: ReadFrom of truncated bytes is an error, and no length that the bytes claim
// is believed before there are as many bytes left. Unknown tagged fields are kept and written back.
//
// The API keys are a matter of configuration (brokers can move them), so every request carries its own: see [Keys].
// Nothing here judges or collects; package broker/internal/api fills the messages and broker/admin asks for them.
package protocol

// Keys are the API keys the messages travel under.
type Keys struct {
	ListClientConnections int16
	PushConfig            int16
	DescribeConnections   int16
	DescribeKernel        int16
	DescribeClosed        int16
	DescribeLimits        int16
	CloseConnections      int16
	DescribeTimeline      int16
	DescribeClientConfigs int16
	DescribeMetadata      int16
}

// The keys a broker uses unless told otherwise. Kafka has since given 93 to another message, which brokerlab does not
// serve; list.client.connections.api.key moves ours. KIP-1324 gives PushConfig no number: 95 is the first that Kafka 4.4
// has not given to another, and push.config.api.key moves it.
const (
	DefaultListClientConnectionsKey int16 = 93
	DefaultPushConfigKey            int16 = 95
	DefaultDescribeConnectionsKey   int16 = 10001
	DefaultDescribeKernelKey        int16 = 10002
	DefaultDescribeClosedKey        int16 = 10003
	DefaultDescribeLimitsKey        int16 = 10004
	DefaultCloseConnectionsKey      int16 = 10005
	DefaultDescribeTimelineKey      int16 = 10006
	DefaultDescribeClientConfigsKey int16 = 10007
	DefaultDescribeMetadataKey      int16 = 10008
)

// DefaultKeys returns the keys of a broker whose configuration moves none.
func DefaultKeys() Keys {
	return Keys{
		ListClientConnections: DefaultListClientConnectionsKey,
		PushConfig:            DefaultPushConfigKey,
		DescribeConnections:   DefaultDescribeConnectionsKey,
		DescribeKernel:        DefaultDescribeKernelKey,
		DescribeClosed:        DefaultDescribeClosedKey,
		DescribeLimits:        DefaultDescribeLimitsKey,
		CloseConnections:      DefaultCloseConnectionsKey,
		DescribeTimeline:      DefaultDescribeTimelineKey,
		DescribeClientConfigs: DefaultDescribeClientConfigsKey,
		DescribeMetadata:      DefaultDescribeMetadataKey,
	}
}

// Names maps each key to the name of its API, as errors and logs print it.
func (k Keys) Names() map[int16]string {
	return map[int16]string{
		k.ListClientConnections: "ListClientConnections",
		k.PushConfig:            "PushConfig",
		k.DescribeConnections:   "DescribeConnections",
		k.DescribeKernel:        "DescribeKernel",
		k.DescribeClosed:        "DescribeClosedConnections",
		k.DescribeLimits:        "DescribeLimits",
		k.CloseConnections:      "CloseConnections",
		k.DescribeTimeline:      "DescribeConnectionTimeline",
		k.DescribeClientConfigs: "DescribeClientConfigs",
		k.DescribeMetadata:      "DescribeMetadata",
	}
}

// keyOr is key unless it was never set: no message of this package can have Produce's key 0.
func keyOr(key, standard int16) int16 {
	if key == 0 {
		return standard
	}
	return key
}
