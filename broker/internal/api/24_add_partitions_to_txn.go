package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// addPartitionsToTxn enlists partitions in a transaction.
//
// Versions: 0-5.
// Needs: WRITE on TRANSACTIONAL_ID, then WRITE on each TOPIC; from v4 CLUSTER_ACTION on CLUSTER.
// Differs from Kafka: nothing known.
func addPartitionsToTxn() through[*kmsg.AddPartitionsToTxnRequest, *kmsg.AddPartitionsToTxnResponse] {
	return through[*kmsg.AddPartitionsToTxnRequest, *kmsg.AddPartitionsToTxnResponse]{
		topics: []string{"Topics.Topic", "Transactions.Topics.Topic"},
		permit: func(q *call, req *kmsg.AddPartitionsToTxnRequest) bool {
			const forBrokers = 4
			if req.Version >= forBrokers {
				return q.permit(req, cluster(acl.ClusterAction))
			}
			if !q.permit(req, right{acl.Write, acl.TransactionalID, "TransactionalID"}, right{acl.Write, acl.Topic, "Topics"}) {
				return false
			}
			if len(q.refused) == 0 {
				return true
			}
			q.answer(errorResponse(req, kerr.OperationNotAttempted.Code, "")) // all or none
			return false
		},
	}
}
