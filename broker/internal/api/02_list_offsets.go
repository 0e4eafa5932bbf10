package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// listOffsets finds the offsets of partitions by time, or their ends.
//
// Versions: 1-11.
// Needs: DESCRIBE on each TOPIC.
// Differs from Kafka: nothing known.
func listOffsets() through[*kmsg.ListOffsetsRequest, *kmsg.ListOffsetsResponse] {
	return through[*kmsg.ListOffsetsRequest, *kmsg.ListOffsetsResponse]{rights: []right{{acl.Describe, acl.Topic, "Topics"}}, topics: []string{"Topics.Topic"}}
}
