package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// listConfigResources names everything that can have configs.
//
// Versions: 0-1.
// Needs: DESCRIBE_CONFIGS on CLUSTER.
// Differs from Kafka: nothing known.
func listConfigResources() through[*kmsg.ListConfigResourcesRequest, *kmsg.ListConfigResourcesResponse] {
	return through[*kmsg.ListConfigResourcesRequest, *kmsg.ListConfigResourcesResponse]{
		rights: []right{cluster(acl.DescribeConfigs)},
		after: func(q *call, req *kmsg.ListConfigResourcesRequest, resp *kmsg.ListConfigResourcesResponse) {
			const kind = int8(metadata.ResourceClientMetrics)
			if resp.ErrorCode != 0 || req.Version > 0 && len(req.ResourceTypes) > 0 && !slices.Contains(req.ResourceTypes, kind) {
				return
			}
			for _, subscription := range q.server.o.Metadata.Image().Resources(metadata.ResourceClientMetrics) {
				r := kmsg.NewListConfigResourcesResponseConfigResource()
				r.Name, r.Type = subscription.Name, kind
				resp.ConfigResources = append(resp.ConfigResources, r)
			}
		},
	}
}
