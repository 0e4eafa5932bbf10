package api

import "github.com/twmb/franz-go/pkg/kmsg"

// shareGroupDescribe describes share groups.
//
// Versions: 1.
// Needs: DESCRIBE on each GROUP, DESCRIBE on each TOPIC that a member is assigned.
// Differs from Kafka: nothing known.
func shareGroupDescribe() through[*kmsg.ShareGroupDescribeRequest, *kmsg.ShareGroupDescribeResponse] {
	return through[*kmsg.ShareGroupDescribeRequest, *kmsg.ShareGroupDescribeResponse]{
		after: func(_ *call, req *kmsg.ShareGroupDescribeRequest, resp *kmsg.ShareGroupDescribeResponse) {
			for i := range resp.Groups {
				g := &resp.Groups[i]
				g.AuthorizedOperations = operations(req.IncludeAuthorizedOperations && g.ErrorCode == 0, groupOperations)
			}
		},
	}
}
