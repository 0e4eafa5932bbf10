package api

import "github.com/twmb/franz-go/pkg/kmsg"

// txnOffsetCommit keeps a group's offsets once its transaction commits.
//
// Versions: 0-6.
// Needs: WRITE on TRANSACTIONAL_ID, READ on GROUP, then READ on each TOPIC.
// Differs from Kafka: nothing known.
func txnOffsetCommit() through[*kmsg.TxnOffsetCommitRequest, *kmsg.TxnOffsetCommitResponse] {
	return through[*kmsg.TxnOffsetCommitRequest, *kmsg.TxnOffsetCommitResponse]{topics: []string{"Topics.Topic", "Topics.TopicID"}}
}
