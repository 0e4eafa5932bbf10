package api

import "github.com/twmb/franz-go/pkg/kmsg"

// produce appends batches of records to partitions.
//
// Versions: 3-13.
// Needs: WRITE on each TOPIC; WRITE on TRANSACTIONAL_ID for transactional batches.
// Differs from Kafka: batches are checked more strictly, because the data plane believes them.
func produce() through[*kmsg.ProduceRequest, *kmsg.ProduceResponse] {
	return through[*kmsg.ProduceRequest, *kmsg.ProduceResponse]{
		topics: []string{"Topics.Topic", "Topics.TopicID"},
		after: func(q *call, req *kmsg.ProduceRequest, resp *kmsg.ProduceResponse) {
			leaders := false
			for i := range resp.Topics {
				for j := range resp.Topics[i].Partitions {
					leaders = leaders || resp.Topics[i].Partitions[j].CurrentLeader.LeaderID == q.server.o.NodeID
				}
			}
			resp.Brokers = nil
			if leaders {
				at := q.endpoint()
				resp.Brokers = []kmsg.ProduceResponseBroker{{NodeID: q.server.o.NodeID, Host: at.Host, Port: at.Port, Rack: q.rack()}}
			}
			q.silent = req.Acks == 0
		},
	}
}
