package api

import "github.com/twmb/franz-go/pkg/kmsg"

// listGroups lists the groups.
//
// Versions: 0-5.
// Needs: DESCRIBE on CLUSTER for all, else DESCRIBE on each GROUP.
// Differs from Kafka: nothing known.
func listGroups() through[*kmsg.ListGroupsRequest, *kmsg.ListGroupsResponse] {
	return through[*kmsg.ListGroupsRequest, *kmsg.ListGroupsResponse]{}
}
