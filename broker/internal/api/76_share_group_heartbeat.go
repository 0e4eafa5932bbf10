package api

import "github.com/twmb/franz-go/pkg/kmsg"

// shareGroupHeartbeat is the whole of the share group protocol: joining, reconciling, leaving.
//
// Versions: 1.
// Needs: READ on GROUP, DESCRIBE on each subscribed TOPIC.
// Differs from Kafka: nothing known.
func shareGroupHeartbeat() through[*kmsg.ShareGroupHeartbeatRequest, *kmsg.ShareGroupHeartbeatResponse] {
	return through[*kmsg.ShareGroupHeartbeatRequest, *kmsg.ShareGroupHeartbeatResponse]{topics: []string{"SubscribedTopicNames"}}
}
