package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// shareFetch acquires records for a member of a share group.
//
// Versions: 1-2.
// Needs: READ on GROUP, then READ on each TOPIC.
// Differs from Kafka: nothing known. Its session is tied to the connection.
func shareFetch() through[*kmsg.ShareFetchRequest, *kmsg.ShareFetchResponse] {
	return through[*kmsg.ShareFetchRequest, *kmsg.ShareFetchResponse]{
		rights: []right{{acl.Read, acl.Group, "GroupID"}, {acl.Read, acl.Topic, "Topics"}},
		topics: []string{"Topics.TopicID", "ForgottenTopicsData.TopicID"},
		after: func(q *call, _ *kmsg.ShareFetchRequest, resp *kmsg.ShareFetchResponse) {
			if len(resp.NodeEndpoints) > 0 {
				at := q.endpoint()
				resp.NodeEndpoints = []kmsg.ShareFetchResponseNodeEndpoint{{NodeID: q.server.o.NodeID, Host: at.Host, Port: at.Port, Rack: q.rack()}}
			}
		},
	}
}
