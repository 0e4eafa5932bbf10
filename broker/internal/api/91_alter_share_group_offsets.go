package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// alterShareGroupOffsets moves where a share group starts.
//
// Versions: 0.
// Needs: READ on GROUP, then READ on each TOPIC.
// Differs from Kafka: nothing known.
func alterShareGroupOffsets() through[*kmsg.AlterShareGroupOffsetsRequest, *kmsg.AlterShareGroupOffsetsResponse] {
	return through[*kmsg.AlterShareGroupOffsetsRequest, *kmsg.AlterShareGroupOffsetsResponse]{rights: []right{{acl.Read, acl.Group, "GroupID"}, {acl.Read, acl.Topic, "Topics"}}, topics: []string{"Topics.Topic"}}
}
