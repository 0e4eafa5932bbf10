package api

import (
	"iter"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// consumerGroupDescribe describes groups of the consumer group protocol.
//
// Versions: 0-1.
// Needs: DESCRIBE on each GROUP, DESCRIBE on each TOPIC that a member is assigned.
// Differs from Kafka: with an engine by address a member's host is "" until it has been heard of since the broker started.
func consumerGroupDescribe() through[*kmsg.ConsumerGroupDescribeRequest, *kmsg.ConsumerGroupDescribeResponse] {
	return through[*kmsg.ConsumerGroupDescribeRequest, *kmsg.ConsumerGroupDescribeResponse]{
		rights: []right{{acl.Describe, acl.Group, "Groups"}},
		after: func(q *call, req *kmsg.ConsumerGroupDescribeRequest, resp *kmsg.ConsumerGroupDescribeResponse) {
			for i := range resp.Groups {
				g := &resp.Groups[i]
				if g.Group == "" && g.ErrorCode == kerr.GroupIDNotFound.Code {
					g.ErrorCode = kerr.InvalidGroupID.Code
				}
				if g.ErrorCode == 0 && !q.describesAll(assignedTopics(g)) {
					*g = kmsg.ConsumerGroupDescribeResponseGroup{Group: g.Group, ErrorCode: kerr.TopicAuthorizationFailed.Code, ErrorMessage: new(undescribed)}
				}
				placeMembers(q, g.Group, g.Members, consumerMember)
				g.AuthorizedOperations = q.operations(req.IncludeAuthorizedOperations && g.ErrorCode == 0, acl.Group, g.Group)
			}
		},
	}
}

// undescribed is what Kafka says of a group whose members have topics that its reader may not describe.
const undescribed = "The group has described topic(s) that the client is not authorized to describe."

func assignedTopics(g *kmsg.ConsumerGroupDescribeResponseGroup) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range g.Members {
			for _, a := range []kmsg.Assignment{g.Members[i].Assignment, g.Members[i].TargetAssignment} {
				for _, t := range a.TopicPartitions {
					if !yield(t.Topic) {
						return
					}
				}
			}
		}
	}
}
