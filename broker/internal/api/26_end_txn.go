package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// endTxn commits or aborts a transaction.
//
// Versions: 0-5.
// Needs: WRITE on TRANSACTIONAL_ID.
// Differs from Kafka: nothing known.
func endTxn() through[*kmsg.EndTxnRequest, *kmsg.EndTxnResponse] {
	return through[*kmsg.EndTxnRequest, *kmsg.EndTxnResponse]{rights: []right{{acl.Write, acl.TransactionalID, "TransactionalID"}}}
}
