package api

import "github.com/twmb/franz-go/pkg/kmsg"

// offsetForLeaderEpoch tells where a leader epoch ends.
//
// Versions: 2-4.
// Needs: DESCRIBE on each TOPIC.
// Differs from Kafka: nothing known.
func offsetForLeaderEpoch() through[*kmsg.OffsetForLeaderEpochRequest, *kmsg.OffsetForLeaderEpochResponse] {
	return through[*kmsg.OffsetForLeaderEpochRequest, *kmsg.OffsetForLeaderEpochResponse]{topics: []string{"Topics.Topic"}}
}
