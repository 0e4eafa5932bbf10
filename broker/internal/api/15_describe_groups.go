package api

import "github.com/twmb/franz-go/pkg/kmsg"

// describeGroups describes classic groups and their members.
//
// Versions: 0-6.
// Needs: DESCRIBE on each GROUP.
// Differs from Kafka: nothing known.
func describeGroups() through[*kmsg.DescribeGroupsRequest, *kmsg.DescribeGroupsResponse] {
	return through[*kmsg.DescribeGroupsRequest, *kmsg.DescribeGroupsResponse]{
		after: func(_ *call, req *kmsg.DescribeGroupsRequest, resp *kmsg.DescribeGroupsResponse) {
			for i := range resp.Groups {
				g := &resp.Groups[i]
				g.AuthorizedOperations = operations(req.IncludeAuthorizedOperations && g.ErrorCode == 0, groupOperations)
			}
		},
	}
}
