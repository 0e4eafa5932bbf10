package api

import "github.com/twmb/franz-go/pkg/kmsg"

// consumerGroupHeartbeat is the whole of the consumer group protocol: joining, reconciling, leaving.
//
// Versions: 0-1.
// Needs: READ on GROUP, DESCRIBE on each subscribed TOPIC.
// Differs from Kafka: nothing known.
func consumerGroupHeartbeat() through[*kmsg.ConsumerGroupHeartbeatRequest, *kmsg.ConsumerGroupHeartbeatResponse] {
	return through[*kmsg.ConsumerGroupHeartbeatRequest, *kmsg.ConsumerGroupHeartbeatResponse]{topics: []string{"SubscribedTopicNames", "Topics.TopicID"}}
}
