package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// createPartitions adds partitions to topics.
//
// Versions: 0-3.
// Needs: ALTER on each TOPIC.
// Differs from Kafka: nothing known.
func createPartitions() through[*kmsg.CreatePartitionsRequest, *kmsg.CreatePartitionsResponse] {
	return through[*kmsg.CreatePartitionsRequest, *kmsg.CreatePartitionsResponse]{rights: []right{{acl.Alter, acl.Topic, "Topics"}}, topics: []string{"Topics.Topic"}}
}
