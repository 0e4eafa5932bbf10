package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// txnOffsetCommit keeps a group's offsets once its transaction commits.
//
// Versions: 0-6.
// Needs: WRITE on TRANSACTIONAL_ID, READ on GROUP, then READ on each TOPIC.
// Differs from Kafka: nothing known.
func txnOffsetCommit() through[*kmsg.TxnOffsetCommitRequest, *kmsg.TxnOffsetCommitResponse] {
	return through[*kmsg.TxnOffsetCommitRequest, *kmsg.TxnOffsetCommitResponse]{rights: []right{{acl.Write, acl.TransactionalID, "TransactionalID"}, {acl.Read, acl.Group, "Group"}, {acl.Read, acl.Topic, "Topics"}}, topics: []string{"Topics.Topic", "Topics.TopicID"}}
}
