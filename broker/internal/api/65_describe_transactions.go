package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// describeTransactions tells the state of transactions.
//
// Versions: 0.
// Needs: DESCRIBE on each TRANSACTIONAL_ID; topics without DESCRIBE are left out.
// Differs from Kafka: nothing known.
func describeTransactions() through[*kmsg.DescribeTransactionsRequest, *kmsg.DescribeTransactionsResponse] {
	return through[*kmsg.DescribeTransactionsRequest, *kmsg.DescribeTransactionsResponse]{
		rights: []right{{acl.Describe, acl.TransactionalID, "TransactionalIDs"}},
		after: func(q *call, _ *kmsg.DescribeTransactionsRequest, resp *kmsg.DescribeTransactionsResponse) {
			for i := range resp.TransactionStates {
				s := &resp.TransactionStates[i]
				s.Topics = slices.DeleteFunc(s.Topics, func(t kmsg.DescribeTransactionsResponseTransactionStateTopic) bool {
					return !q.mayQuietly(acl.Describe, acl.Topic, t.Topic)
				})
			}
		},
	}
}
