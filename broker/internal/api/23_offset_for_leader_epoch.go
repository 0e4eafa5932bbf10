package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// offsetForLeaderEpoch tells where a leader epoch ends.
//
// Versions: 2-4.
// Needs: DESCRIBE on each TOPIC.
// Differs from Kafka: nothing known.
func offsetForLeaderEpoch() through[*kmsg.OffsetForLeaderEpochRequest, *kmsg.OffsetForLeaderEpochResponse] {
	return through[*kmsg.OffsetForLeaderEpochRequest, *kmsg.OffsetForLeaderEpochResponse]{rights: []right{{acl.Describe, acl.Topic, "Topics"}}, topics: []string{"Topics.Topic"}}
}
