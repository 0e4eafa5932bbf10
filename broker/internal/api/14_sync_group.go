package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// syncGroup hands out a classic group's assignment; it waits for the leader.
//
// Versions: 0-5.
// Needs: READ on GROUP.
// Differs from Kafka: nothing known.
func syncGroup() through[*kmsg.SyncGroupRequest, *kmsg.SyncGroupResponse] {
	return through[*kmsg.SyncGroupRequest, *kmsg.SyncGroupResponse]{rights: []right{{acl.Read, acl.Group, "Group"}}}
}
