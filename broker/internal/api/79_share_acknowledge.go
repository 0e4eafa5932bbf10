package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// shareAcknowledge says what became of the records that a member of a share group acquired.
//
// Versions: 1-2.
// Needs: READ on GROUP, then READ on each TOPIC.
// Differs from Kafka: its session is tied to the connection, and to no other.
func shareAcknowledge() through[*kmsg.ShareAcknowledgeRequest, *kmsg.ShareAcknowledgeResponse] {
	return through[*kmsg.ShareAcknowledgeRequest, *kmsg.ShareAcknowledgeResponse]{
		rights: []right{{acl.Read, acl.Group, "GroupID"}},
		topics: []string{"Topics.TopicID"},
		permit: func(q *call, req *kmsg.ShareAcknowledgeRequest) bool {
			switch {
			case req.GroupID == nil:
				q.refuse(req, kerr.InvalidRequest, "")
				return false
			case q.server.o.Authorizer == nil:
				return true
			case req.ShareSessionEpoch != 0 && q.session.shares[shareKey(req.GroupID, req.MemberID)] == nil:
				q.refuse(req, kerr.ShareSessionNotFound, "")
				return false
			}
			q.partShares(req)
			return true
		},
		after: func(q *call, req *kmsg.ShareAcknowledgeRequest, resp *kmsg.ShareAcknowledgeResponse) {
			if resp.ErrorCode != 0 {
				q.refused = nil
			}
			if req.ShareSessionEpoch == finalShareEpoch {
				q.keepShares(shareKey(req.GroupID, req.MemberID), finalShareEpoch, nil)
			}
			leaders := q.hints(true)
			for i := range resp.Topics {
				for j := range resp.Topics[i].Partitions {
					if p := &resp.Topics[i].Partitions[j]; elsewhere(p.ErrorCode) {
						leaders.leader(&p.CurrentLeader.LeaderID, &p.CurrentLeader.LeaderEpoch)
					}
				}
			}
			resp.NodeEndpoints = endpoints[kmsg.ShareAcknowledgeResponseNodeEndpoint](leaders)
		},
	}
}
