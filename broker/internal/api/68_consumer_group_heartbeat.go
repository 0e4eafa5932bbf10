package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// consumerGroupHeartbeat is the whole of the consumer group protocol: joining, reconciling, leaving.
//
// Versions: 0-1.
// Needs: READ on GROUP, DESCRIBE on each subscribed TOPIC; of those that its regular expression matches, the others are left out.
// Differs from Kafka: the topics of a regular expression are found at once, and anew with each heartbeat after topics or rules have
// changed, by the rights of the member itself; Kafka does so in the background, for all members of the group together. With an engine by
// address a member that has one joins anew (FENCED_MEMBER_EPOCH) when its broker was restarted or is another than before.
func consumerGroupHeartbeat() through[*kmsg.ConsumerGroupHeartbeatRequest, *kmsg.ConsumerGroupHeartbeatResponse] {
	return through[*kmsg.ConsumerGroupHeartbeatRequest, *kmsg.ConsumerGroupHeartbeatResponse]{
		rights: []right{{acl.Read, acl.Group, "Group"}}, topics: []string{"SubscribedTopicNames", "Topics.TopicID"},
		permit: func(q *call, req *kmsg.ConsumerGroupHeartbeatRequest) bool {
			if !q.recall(req) || !q.permitSubscription(req, req.SubscribedTopicNames) {
				return false
			}
			q.expand(req)
			return true
		},
		after: func(q *call, req *kmsg.ConsumerGroupHeartbeatRequest, resp *kmsg.ConsumerGroupHeartbeatResponse) {
			q.settleSubscription(req, resp)
			q.noteMember(resp.ErrorCode, req.Group, orElse(resp.MemberID, req.MemberID))
		},
	}
}
