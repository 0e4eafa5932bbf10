package api

import "github.com/twmb/franz-go/pkg/kmsg"

// offsetFetch tells how far groups have read.
//
// Versions: 1-10.
// Needs: DESCRIBE on GROUP, then DESCRIBE on each TOPIC.
// Differs from Kafka: nothing known.
func offsetFetch() through[*kmsg.OffsetFetchRequest, *kmsg.OffsetFetchResponse] {
	return through[*kmsg.OffsetFetchRequest, *kmsg.OffsetFetchResponse]{topics: []string{"Topics.Topic", "Groups.Topics.Topic", "Groups.Topics.TopicID"}}
}
