package api

import "github.com/twmb/franz-go/pkg/kmsg"

// offsetDelete forgets a group's offsets of topics.
//
// Versions: 0.
// Needs: DELETE on GROUP, then READ on each TOPIC.
// Differs from Kafka: nothing known.
func offsetDelete() through[*kmsg.OffsetDeleteRequest, *kmsg.OffsetDeleteResponse] {
	return through[*kmsg.OffsetDeleteRequest, *kmsg.OffsetDeleteResponse]{topics: []string{"Topics.Topic"}}
}
