package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// listGroups lists the groups.
//
// Versions: 0-5.
// Needs: DESCRIBE on CLUSTER for all, else DESCRIBE on each GROUP.
// Differs from Kafka: nothing known.
func listGroups() through[*kmsg.ListGroupsRequest, *kmsg.ListGroupsResponse] {
	return through[*kmsg.ListGroupsRequest, *kmsg.ListGroupsResponse]{
		after: func(q *call, _ *kmsg.ListGroupsRequest, resp *kmsg.ListGroupsResponse) {
			if q.server.o.Authorizer == nil || q.mayQuietly(acl.Describe, acl.Cluster, acl.ClusterName) {
				return
			}
			resp.Groups = slices.DeleteFunc(resp.Groups, func(g kmsg.ListGroupsResponseGroup) bool {
				return !q.mayQuietly(acl.Describe, acl.Group, g.Group)
			})
		},
	}
}
