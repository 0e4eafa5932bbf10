package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// deleteShareGroupOffsets forgets where a share group starts.
//
// Versions: 0.
// Needs: DELETE on GROUP, then READ on each TOPIC.
// Differs from Kafka: nothing known.
func deleteShareGroupOffsets() through[*kmsg.DeleteShareGroupOffsetsRequest, *kmsg.DeleteShareGroupOffsetsResponse] {
	return through[*kmsg.DeleteShareGroupOffsetsRequest, *kmsg.DeleteShareGroupOffsetsResponse]{rights: []right{{acl.Delete, acl.Group, "GroupID"}, {acl.Read, acl.Topic, "Topics"}}, topics: []string{"Topics.Topic"}}
}
