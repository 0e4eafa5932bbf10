package api

import "github.com/twmb/franz-go/pkg/kmsg"

// addPartitionsToTxn enlists partitions in a transaction.
//
// Versions: 0-5.
// Needs: WRITE on TRANSACTIONAL_ID, then WRITE on each TOPIC; from v4 CLUSTER_ACTION on CLUSTER.
// Differs from Kafka: nothing known.
func addPartitionsToTxn() through[*kmsg.AddPartitionsToTxnRequest, *kmsg.AddPartitionsToTxnResponse] {
	return through[*kmsg.AddPartitionsToTxnRequest, *kmsg.AddPartitionsToTxnResponse]{topics: []string{"Topics.Topic", "Transactions.Topics.Topic"}}
}
