package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// describeTopicPartitions describes topics page by page.
//
// Versions: 0.
// Needs: DESCRIBE on each TOPIC; without names the others are left out.
// Differs from Kafka: nothing known.
func describeTopicPartitions() through[*kmsg.DescribeTopicPartitionsRequest, *kmsg.DescribeTopicPartitionsResponse] {
	return through[*kmsg.DescribeTopicPartitionsRequest, *kmsg.DescribeTopicPartitionsResponse]{
		topics: []string{"Topics.Topic"},
		permit: func(q *call, req *kmsg.DescribeTopicPartitionsRequest) bool {
			return q.permit(req, right{acl.Describe, acl.Topic, "Topics"})
		},
		after: func(q *call, _ *kmsg.DescribeTopicPartitionsRequest, resp *kmsg.DescribeTopicPartitionsResponse) {
			resp.Topics = slices.DeleteFunc(resp.Topics, func(t kmsg.DescribeTopicPartitionsResponseTopic) bool {
				return t.Topic != nil && !q.mayQuietly(acl.Describe, acl.Topic, *t.Topic)
			})
			for i := range resp.Topics {
				if t := &resp.Topics[i]; t.Topic != nil && (t.ErrorCode == 0 || t.ErrorCode == kerr.UnknownTopicOrPartition.Code) {
					t.AuthorizedOperations = q.operations(true, acl.Topic, *t.Topic)
				}
			}
		},
	}
}
