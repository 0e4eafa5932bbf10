package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// deleteGroups removes empty groups.
//
// Versions: 0-2.
// Needs: DELETE on each GROUP.
// Differs from Kafka: nothing known.
func deleteGroups() through[*kmsg.DeleteGroupsRequest, *kmsg.DeleteGroupsResponse] {
	return through[*kmsg.DeleteGroupsRequest, *kmsg.DeleteGroupsResponse]{rights: []right{{acl.Delete, acl.Group, "Groups"}}}
}
