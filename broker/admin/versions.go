package admin

import (
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

// Versions is the option that makes a kgo client send the requests of this package beside Kafka's stable ones; keys
// are the standard ones unless given. It replaces any other kgo.MaxVersions.
func Versions(keys ...protocol.Keys) kgo.Opt {
	v := kversion.Stable()
	if len(keys) == 0 {
		keys = []protocol.Keys{protocol.DefaultKeys()}
	}
	for _, k := range keys {
		v.SetMaxKeyVersion(k.ListClientConnections, 0)
		v.SetMaxKeyVersion(k.DescribeConnections, 0)
		v.SetMaxKeyVersion(k.DescribeKernel, 0)
		v.SetMaxKeyVersion(k.DescribeClosed, 0)
		v.SetMaxKeyVersion(k.DescribeLimits, 0)
		v.SetMaxKeyVersion(k.CloseConnections, 0)
		v.SetMaxKeyVersion(k.DescribeTimeline, 0)
		v.SetMaxKeyVersion(k.DescribeClientConfigs, 0)
		v.SetMaxKeyVersion(k.DescribeMetadata, 0)
	}
	return kgo.MaxVersions(v)
}
