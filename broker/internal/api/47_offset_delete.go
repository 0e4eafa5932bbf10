package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// offsetDelete forgets a group's offsets of topics.
//
// Versions: 0.
// Needs: DELETE on GROUP, then READ on each TOPIC.
// Differs from Kafka: nothing known.
func offsetDelete() through[*kmsg.OffsetDeleteRequest, *kmsg.OffsetDeleteResponse] {
	return through[*kmsg.OffsetDeleteRequest, *kmsg.OffsetDeleteResponse]{rights: []right{{acl.Delete, acl.Group, "Group"}, {acl.Read, acl.Topic, "Topics"}}, topics: []string{"Topics.Topic"}}
}
