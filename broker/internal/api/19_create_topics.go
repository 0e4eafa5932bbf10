package api

import "github.com/twmb/franz-go/pkg/kmsg"

// createTopics makes topics.
//
// Versions: 2-7.
// Needs: CREATE on CLUSTER for all, else CREATE on each TOPIC.
// Differs from Kafka: there is one broker: a replication factor above 1 is refused. The answer does
// not list the new topic's configs.
func createTopics() through[*kmsg.CreateTopicsRequest, *kmsg.CreateTopicsResponse] {
	return through[*kmsg.CreateTopicsRequest, *kmsg.CreateTopicsResponse]{
		topics: []string{"Topics.Topic"},
		after: func(_ *call, _ *kmsg.CreateTopicsRequest, resp *kmsg.CreateTopicsResponse) {
			for i := range resp.Topics {
				if t := &resp.Topics[i]; t.ErrorCode == 0 && t.Configs == nil {
					t.Configs = []kmsg.CreateTopicsResponseTopicConfig{} // Java's admin client does not take null
				}
			}
		},
	}
}
