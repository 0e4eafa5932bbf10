package api

import (
	"iter"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// shareGroupDescribe describes share groups.
//
// Versions: 1.
// Needs: DESCRIBE on each GROUP, DESCRIBE on each TOPIC that a member is assigned.
// Differs from Kafka: with an engine by address a member's host is "" until it has been heard of since the broker started.
func shareGroupDescribe() through[*kmsg.ShareGroupDescribeRequest, *kmsg.ShareGroupDescribeResponse] {
	return through[*kmsg.ShareGroupDescribeRequest, *kmsg.ShareGroupDescribeResponse]{
		rights: []right{{acl.Describe, acl.Group, "GroupIDs"}},
		after: func(q *call, req *kmsg.ShareGroupDescribeRequest, resp *kmsg.ShareGroupDescribeResponse) {
			for i := range resp.Groups {
				g := &resp.Groups[i]
				if g.GroupID == "" && g.ErrorCode == kerr.GroupIDNotFound.Code {
					g.ErrorCode = kerr.InvalidGroupID.Code
				}
				if g.ErrorCode == 0 && !q.describesAll(sharedTopics(g)) {
					*g = kmsg.ShareGroupDescribeResponseGroup{GroupID: g.GroupID, ErrorCode: kerr.TopicAuthorizationFailed.Code, ErrorMessage: new(undescribed)}
				}
				placeMembers(q, g.GroupID, g.Members, shareMember)
				g.AuthorizedOperations = q.operations(req.IncludeAuthorizedOperations && g.ErrorCode == 0, acl.Group, g.GroupID)
			}
		},
	}
}

func sharedTopics(g *kmsg.ShareGroupDescribeResponseGroup) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range g.Members {
			for _, t := range g.Members[i].Assignment.TopicPartitions {
				if !yield(t.Topic) {
					return
				}
			}
		}
	}
}
