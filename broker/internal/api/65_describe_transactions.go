package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// describeTransactions tells the state of transactions.
//
// Versions: 0.
// Needs: DESCRIBE on each TRANSACTIONAL_ID.
// Differs from Kafka: nothing known.
func describeTransactions() through[*kmsg.DescribeTransactionsRequest, *kmsg.DescribeTransactionsResponse] {
	return through[*kmsg.DescribeTransactionsRequest, *kmsg.DescribeTransactionsResponse]{rights: []right{{acl.Describe, acl.TransactionalID, "TransactionalIDs"}}}
}
