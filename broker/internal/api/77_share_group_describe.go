package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// shareGroupDescribe describes share groups.
//
// Versions: 1.
// Needs: DESCRIBE on each GROUP, DESCRIBE on each TOPIC that a member is assigned.
// Differs from Kafka: nothing known.
func shareGroupDescribe() through[*kmsg.ShareGroupDescribeRequest, *kmsg.ShareGroupDescribeResponse] {
	return through[*kmsg.ShareGroupDescribeRequest, *kmsg.ShareGroupDescribeResponse]{
		rights: []right{{acl.Describe, acl.Group, "GroupIDs"}},
		after: func(q *call, req *kmsg.ShareGroupDescribeRequest, resp *kmsg.ShareGroupDescribeResponse) {
			for i := range resp.Groups {
				g := &resp.Groups[i]
				g.AuthorizedOperations = q.operations(req.IncludeAuthorizedOperations && g.ErrorCode == 0, acl.Group, g.GroupID)
			}
		},
	}
}
