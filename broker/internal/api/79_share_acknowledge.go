package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// shareAcknowledge says what became of the records that a member of a share group acquired.
//
// Versions: 1-2.
// Needs: READ on GROUP, then READ on each TOPIC.
// Differs from Kafka: nothing known. Its session is tied to the connection.
func shareAcknowledge() through[*kmsg.ShareAcknowledgeRequest, *kmsg.ShareAcknowledgeResponse] {
	return through[*kmsg.ShareAcknowledgeRequest, *kmsg.ShareAcknowledgeResponse]{
		rights: []right{{acl.Read, acl.Group, "GroupID"}, {acl.Read, acl.Topic, "Topics"}},
		topics: []string{"Topics.TopicID"},
		after: func(q *call, _ *kmsg.ShareAcknowledgeRequest, resp *kmsg.ShareAcknowledgeResponse) {
			if len(resp.NodeEndpoints) > 0 {
				at := q.endpoint()
				resp.NodeEndpoints = []kmsg.ShareAcknowledgeResponseNodeEndpoint{{NodeID: q.server.o.NodeID, Host: at.Host, Port: at.Port, Rack: q.rack()}}
			}
		},
	}
}
