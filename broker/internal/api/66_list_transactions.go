package api

import "github.com/twmb/franz-go/pkg/kmsg"

// listTransactions lists transactions.
//
// Versions: 0-2.
// Needs: DESCRIBE on each TRANSACTIONAL_ID; the others are left out.
// Differs from Kafka: nothing known.
func listTransactions() through[*kmsg.ListTransactionsRequest, *kmsg.ListTransactionsResponse] {
	return through[*kmsg.ListTransactionsRequest, *kmsg.ListTransactionsResponse]{}
}
