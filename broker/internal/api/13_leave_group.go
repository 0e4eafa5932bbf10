package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// leaveGroup takes members out of a classic group.
//
// Versions: 0-5.
// Needs: READ on GROUP.
// Differs from Kafka: nothing known.
func leaveGroup() through[*kmsg.LeaveGroupRequest, *kmsg.LeaveGroupResponse] {
	return through[*kmsg.LeaveGroupRequest, *kmsg.LeaveGroupResponse]{rights: []right{{acl.Read, acl.Group, "Group"}}}
}
