package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// listConfigResources names everything that can have configs.
//
// Versions: 0-1.
// Needs: DESCRIBE_CONFIGS on CLUSTER.
// Differs from Kafka: nothing known.
func listConfigResources() through[*kmsg.ListConfigResourcesRequest, *kmsg.ListConfigResourcesResponse] {
	return through[*kmsg.ListConfigResourcesRequest, *kmsg.ListConfigResourcesResponse]{rights: []right{cluster(acl.DescribeConfigs)}}
}
