package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// listTransactions lists transactions.
//
// Versions: 0-2.
// Needs: DESCRIBE on each TRANSACTIONAL_ID; the others are left out.
// Differs from Kafka: nothing known.
func listTransactions() through[*kmsg.ListTransactionsRequest, *kmsg.ListTransactionsResponse] {
	return through[*kmsg.ListTransactionsRequest, *kmsg.ListTransactionsResponse]{
		after: func(q *call, req *kmsg.ListTransactionsRequest, resp *kmsg.ListTransactionsResponse) {
			resp.UnknownStateFilters = slices.DeleteFunc(slices.Clone(req.StateFilters), func(s string) bool { return slices.Contains(transactionStates(), s) })
			resp.TransactionStates = slices.DeleteFunc(resp.TransactionStates, func(s kmsg.ListTransactionsResponseTransactionState) bool {
				return !q.mayQuietly(acl.Describe, acl.TransactionalID, s.TransactionalID)
			})
		},
	}
}

// transactionStates are Kafka's names of what a transaction can be (TransactionState).
func transactionStates() []string {
	return []string{"Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence"}
}
