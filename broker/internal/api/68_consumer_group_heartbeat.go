package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// consumerGroupHeartbeat is the whole of the consumer group protocol: joining, reconciling, leaving.
//
// Versions: 0-1.
// Needs: READ on GROUP, DESCRIBE on each subscribed TOPIC.
// Differs from Kafka: nothing known.
func consumerGroupHeartbeat() through[*kmsg.ConsumerGroupHeartbeatRequest, *kmsg.ConsumerGroupHeartbeatResponse] {
	return through[*kmsg.ConsumerGroupHeartbeatRequest, *kmsg.ConsumerGroupHeartbeatResponse]{
		rights: []right{{acl.Read, acl.Group, "Group"}}, topics: []string{"SubscribedTopicNames", "Topics.TopicID"},
		permit: func(q *call, req *kmsg.ConsumerGroupHeartbeatRequest) bool {
			return q.permitSubscription(req, req.SubscribedTopicNames)
		},
	}
}
