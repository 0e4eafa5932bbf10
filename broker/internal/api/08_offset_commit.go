package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// offsetCommit keeps how far a group has read.
//
// Versions: 2-10.
// Needs: READ on GROUP, then READ on each TOPIC.
// Differs from Kafka: nothing known.
func offsetCommit() through[*kmsg.OffsetCommitRequest, *kmsg.OffsetCommitResponse] {
	return through[*kmsg.OffsetCommitRequest, *kmsg.OffsetCommitResponse]{rights: []right{{acl.Read, acl.Group, "Group"}, {acl.Read, acl.Topic, "Topics"}}, topics: []string{"Topics.Topic", "Topics.TopicID"}}
}
