package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// shareFetch acquires records for a member of a share group.
//
// Versions: 1-2.
// Needs: READ on GROUP, then READ on each TOPIC of the session, each time.
// Differs from Kafka: its session is tied to the connection, and to no other. Records that a waiting ShareFetch was to get are
// withheld once their topic is denied.
func shareFetch() through[*kmsg.ShareFetchRequest, *kmsg.ShareFetchResponse] {
	return through[*kmsg.ShareFetchRequest, *kmsg.ShareFetchResponse]{
		rights: []right{{acl.Read, acl.Group, "GroupID"}},
		topics: []string{"Topics.TopicID", "ForgottenTopicsData.TopicID"},
		permit: func(q *call, req *kmsg.ShareFetchRequest) bool { return q.permitShares(req) },
		after: func(q *call, req *kmsg.ShareFetchRequest, resp *kmsg.ShareFetchResponse) {
			q.settleShares(req, resp)
			if resp.ErrorCode != 0 {
				resp.AcquisitionLockTimeoutMillis = 0
			}
			leaders := q.hints(true)
			for i := range resp.Topics {
				for j := range resp.Topics[i].Partitions {
					if p := &resp.Topics[i].Partitions[j]; elsewhere(p.ErrorCode) {
						leaders.leader(&p.CurrentLeader.LeaderID, &p.CurrentLeader.LeaderEpoch)
					}
				}
			}
			resp.NodeEndpoints = endpoints[kmsg.ShareFetchResponseNodeEndpoint](leaders)
		},
	}
}
