package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// addOffsetsToTxn enlists a group's offsets in a transaction.
//
// Versions: 0-4.
// Needs: WRITE on TRANSACTIONAL_ID, then READ on GROUP.
// Differs from Kafka: nothing known.
func addOffsetsToTxn() through[*kmsg.AddOffsetsToTxnRequest, *kmsg.AddOffsetsToTxnResponse] {
	return through[*kmsg.AddOffsetsToTxnRequest, *kmsg.AddOffsetsToTxnResponse]{rights: []right{{acl.Write, acl.TransactionalID, "TransactionalID"}, {acl.Read, acl.Group, "Group"}}}
}
