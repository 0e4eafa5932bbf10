package api

import "github.com/twmb/franz-go/pkg/kmsg"

// createTopics makes topics.
//
// Versions: 2-7.
// Needs: CREATE on CLUSTER for all, else CREATE on each TOPIC.
// Differs from Kafka: there is one broker: a replication factor above 1 is refused.
func createTopics() through[*kmsg.CreateTopicsRequest, *kmsg.CreateTopicsResponse] {
	return through[*kmsg.CreateTopicsRequest, *kmsg.CreateTopicsResponse]{topics: []string{"Topics.Topic"}}
}
