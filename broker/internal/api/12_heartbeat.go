package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// heartbeat keeps a member of a classic group alive.
//
// Versions: 0-4.
// Needs: READ on GROUP.
// Differs from Kafka: nothing known.
func heartbeat() through[*kmsg.HeartbeatRequest, *kmsg.HeartbeatResponse] {
	return through[*kmsg.HeartbeatRequest, *kmsg.HeartbeatResponse]{
		rights: []right{{acl.Read, acl.Group, "Group"}},
		after: func(q *call, req *kmsg.HeartbeatRequest, resp *kmsg.HeartbeatResponse) {
			q.noteMember(resp.ErrorCode, req.Group, req.MemberID)
		},
	}
}
