package api

import "github.com/twmb/franz-go/pkg/kmsg"

// alterShareGroupOffsets moves where a share group starts.
//
// Versions: 0.
// Needs: READ on GROUP, then READ on each TOPIC.
// Differs from Kafka: nothing known.
func alterShareGroupOffsets() through[*kmsg.AlterShareGroupOffsetsRequest, *kmsg.AlterShareGroupOffsetsResponse] {
	return through[*kmsg.AlterShareGroupOffsetsRequest, *kmsg.AlterShareGroupOffsetsResponse]{topics: []string{"Topics.Topic"}}
}
