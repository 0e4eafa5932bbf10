package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// describeShareGroupOffsets tells where share groups start.
//
// Versions: 0-1.
// Needs: DESCRIBE on GROUP, then DESCRIBE on each TOPIC.
// Differs from Kafka: nothing known.
func describeShareGroupOffsets() through[*kmsg.DescribeShareGroupOffsetsRequest, *kmsg.DescribeShareGroupOffsetsResponse] {
	return through[*kmsg.DescribeShareGroupOffsetsRequest, *kmsg.DescribeShareGroupOffsetsResponse]{
		topics: []string{"Groups.Topics.Topic"},
		rights: []right{{acl.Describe, acl.Group, "Groups"}},
		after: func(q *call, _ *kmsg.DescribeShareGroupOffsetsRequest, resp *kmsg.DescribeShareGroupOffsetsResponse) {
			for i := range resp.Groups {
				for j := range resp.Groups[i].Topics {
					if t := &resp.Groups[i].Topics[j]; !q.may(acl.Describe, acl.Topic, t.Topic) {
						t.TopicID = [16]byte{}
						for k := range t.Partitions {
							refused := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopicPartition()
							refused.Partition, refused.ErrorCode = t.Partitions[k].Partition, kerr.TopicAuthorizationFailed.Code
							refused.StartOffset, refused.ErrorMessage = -1, new(denialText(acl.Topic))
							t.Partitions[k] = refused
						}
					}
				}
			}
		},
	}
}
