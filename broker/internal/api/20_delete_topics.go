package api

import "github.com/twmb/franz-go/pkg/kmsg"

// deleteTopics removes topics and their records.
//
// Versions: 1-6.
// Needs: DELETE on each TOPIC (DESCRIBE reveals the name of one given by id).
// Differs from Kafka: nothing known.
func deleteTopics() through[*kmsg.DeleteTopicsRequest, *kmsg.DeleteTopicsResponse] {
	return through[*kmsg.DeleteTopicsRequest, *kmsg.DeleteTopicsResponse]{topics: []string{"TopicNames", "Topics.Topic", "Topics.TopicID"}}
}
