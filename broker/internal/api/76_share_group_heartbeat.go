package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// shareGroupHeartbeat is the whole of the share group protocol: joining, reconciling, leaving.
//
// Versions: 1.
// Needs: READ on GROUP, DESCRIBE on each subscribed TOPIC.
// Differs from Kafka: nothing known.
func shareGroupHeartbeat() through[*kmsg.ShareGroupHeartbeatRequest, *kmsg.ShareGroupHeartbeatResponse] {
	return through[*kmsg.ShareGroupHeartbeatRequest, *kmsg.ShareGroupHeartbeatResponse]{
		rights: []right{{acl.Read, acl.Group, "GroupID"}}, topics: []string{"SubscribedTopicNames"},
		permit: func(q *call, req *kmsg.ShareGroupHeartbeatRequest) bool {
			return q.permitSubscription(req, req.SubscribedTopicNames)
		},
		after: func(q *call, req *kmsg.ShareGroupHeartbeatRequest, resp *kmsg.ShareGroupHeartbeatResponse) {
			q.noteMember(resp.ErrorCode, req.GroupID, orElse(resp.MemberID, req.MemberID))
		},
	}
}
