package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// offsetForLeaderEpoch tells where a leader epoch ends.
//
// Versions: 2-4.
// Needs: CLUSTER_ACTION on CLUSTER for all, else DESCRIBE on each TOPIC.
// Differs from Kafka: nothing known.
func offsetForLeaderEpoch() through[*kmsg.OffsetForLeaderEpochRequest, *kmsg.OffsetForLeaderEpochResponse] {
	return through[*kmsg.OffsetForLeaderEpochRequest, *kmsg.OffsetForLeaderEpochResponse]{
		topics: []string{"Topics.Topic"},
		permit: func(q *call, req *kmsg.OffsetForLeaderEpochRequest) bool {
			return q.mayQuietly(acl.ClusterAction, acl.Cluster, acl.ClusterName) || q.permit(req, right{acl.Describe, acl.Topic, "Topics"})
		},
	}
}
