package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// produce appends batches of records to partitions.
//
// Versions: 3-13.
// Needs: WRITE on each TOPIC; WRITE on TRANSACTIONAL_ID for transactional batches.
// Differs from Kafka: batches are checked more strictly, because the data plane believes them.
func produce() through[*kmsg.ProduceRequest, *kmsg.ProduceResponse] {
	return through[*kmsg.ProduceRequest, *kmsg.ProduceResponse]{
		topics: []string{"Topics.Topic", "Topics.TopicID"},
		permit: func(q *call, req *kmsg.ProduceRequest) bool {
			q.silent = req.Acks == 0
			if transactional(req) && (req.TransactionID == nil || !q.may(acl.Write, acl.TransactionalID, *req.TransactionID)) {
				q.refused = append(q.refused, errorResponse(req, kerr.TransactionalIDAuthorizationFailed.Code, ""))
				q.answer(emptyResponse(req))
				return false
			}
			return q.permit(req, right{acl.Write, acl.Topic, "Topics"}) && (q.silent || !q.behindGap(req))
		},
		after: func(q *call, req *kmsg.ProduceRequest, resp *kmsg.ProduceResponse) {
			leaders := q.hints(req.Version >= 10)
			for i := range resp.Topics {
				for j := range resp.Topics[i].Partitions {
					p := &resp.Topics[i].Partitions[j]
					leaders.leader(&p.CurrentLeader.LeaderID, &p.CurrentLeader.LeaderEpoch)
					if p.ErrorCode == kerr.UnknownTopicOrPartition.Code || p.ErrorCode == kerr.UnknownTopicID.Code {
						p.ErrorMessage = nil // the code says it all
					}
				}
			}
			resp.Brokers = endpoints[kmsg.ProduceResponseBroker](leaders)
			q.silent = req.Acks == 0
		},
	}
}

// transactional tells whether a batch of the request belongs to a transaction.
func transactional(req *kmsg.ProduceRequest) bool {
	const attributesAt, transactionalBit = 21, 1 << 4
	for i := range req.Topics {
		for j := range req.Topics[i].Partitions {
			if b := req.Topics[i].Partitions[j].Records; len(b) > attributesAt+1 && b[attributesAt+1]&transactionalBit != 0 {
				return true
			}
		}
	}
	return false
}
