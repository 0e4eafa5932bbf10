package api

import "github.com/twmb/franz-go/pkg/kmsg"

// deleteShareGroupOffsets forgets where a share group starts.
//
// Versions: 0.
// Needs: DELETE on GROUP, then READ on each TOPIC.
// Differs from Kafka: nothing known.
func deleteShareGroupOffsets() through[*kmsg.DeleteShareGroupOffsetsRequest, *kmsg.DeleteShareGroupOffsetsResponse] {
	return through[*kmsg.DeleteShareGroupOffsetsRequest, *kmsg.DeleteShareGroupOffsetsResponse]{topics: []string{"Topics.Topic"}}
}
