package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// consumerGroupDescribe describes groups of the consumer group protocol.
//
// Versions: 0-1.
// Needs: DESCRIBE on each GROUP, DESCRIBE on each TOPIC that a member is assigned.
// Differs from Kafka: nothing known.
func consumerGroupDescribe() through[*kmsg.ConsumerGroupDescribeRequest, *kmsg.ConsumerGroupDescribeResponse] {
	return through[*kmsg.ConsumerGroupDescribeRequest, *kmsg.ConsumerGroupDescribeResponse]{
		rights: []right{{acl.Describe, acl.Group, "Groups"}},
		after: func(q *call, req *kmsg.ConsumerGroupDescribeRequest, resp *kmsg.ConsumerGroupDescribeResponse) {
			for i := range resp.Groups {
				g := &resp.Groups[i]
				g.AuthorizedOperations = q.operations(req.IncludeAuthorizedOperations && g.ErrorCode == 0, acl.Group, g.Group)
			}
		},
	}
}
