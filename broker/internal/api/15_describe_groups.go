package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// describeGroups describes classic groups and their members.
//
// Versions: 0-6.
// Needs: DESCRIBE on each GROUP.
// Differs from Kafka: with an engine by address a member's host is "" until it has been heard of since the broker started.
func describeGroups() through[*kmsg.DescribeGroupsRequest, *kmsg.DescribeGroupsResponse] {
	return through[*kmsg.DescribeGroupsRequest, *kmsg.DescribeGroupsResponse]{
		rights: []right{{acl.Describe, acl.Group, "Groups"}},
		after: func(q *call, req *kmsg.DescribeGroupsRequest, resp *kmsg.DescribeGroupsResponse) {
			for i := range resp.Groups {
				g := &resp.Groups[i]
				placeMembers(q, g.Group, g.Members, classicMember)
				g.AuthorizedOperations = q.operations(req.IncludeAuthorizedOperations && g.ErrorCode == 0, acl.Group, g.Group)
			}
		},
	}
}
