package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// joinGroup makes its sender a member of a classic group; it waits for the others.
//
// Versions: 0-9.
// Needs: READ on GROUP.
// Differs from Kafka: nothing known.
func joinGroup() through[*kmsg.JoinGroupRequest, *kmsg.JoinGroupResponse] {
	return through[*kmsg.JoinGroupRequest, *kmsg.JoinGroupResponse]{
		rights: []right{{acl.Read, acl.Group, "Group"}},
		after: func(q *call, req *kmsg.JoinGroupRequest, resp *kmsg.JoinGroupResponse) {
			q.noteMember(resp.ErrorCode, req.Group, resp.MemberID)
		},
	}
}
