package api

import "github.com/twmb/franz-go/pkg/kmsg"

// fetch reads batches of records from partitions; it waits for some up to the client's MaxWaitMillis.
//
// Versions: 4-18.
// Needs: READ on each TOPIC; CLUSTER_ACTION on CLUSTER for a follower.
// Differs from Kafka: there are no fetch sessions. An incremental Fetch names no topic, so a change of
// rights would not act on it; the session id is always 0 and clients send full requests.
func fetch() through[*kmsg.FetchRequest, *kmsg.FetchResponse] {
	return through[*kmsg.FetchRequest, *kmsg.FetchResponse]{
		topics: []string{"Topics.Topic", "Topics.TopicID", "ForgottenTopics.Topic", "ForgottenTopics.TopicID"},
		after: func(q *call, _ *kmsg.FetchRequest, resp *kmsg.FetchResponse) {
			resp.SessionID = 0
			leaders := false
			for i := range resp.Topics {
				for j := range resp.Topics[i].Partitions {
					leaders = leaders || resp.Topics[i].Partitions[j].CurrentLeader.LeaderID == q.server.o.NodeID
				}
			}
			resp.Brokers = nil
			if leaders {
				at := q.endpoint()
				resp.Brokers = []kmsg.FetchResponseBroker{{NodeID: q.server.o.NodeID, Host: at.Host, Port: at.Port, Rack: q.rack()}}
			}
		},
	}
}
