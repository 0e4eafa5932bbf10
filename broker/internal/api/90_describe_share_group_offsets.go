package api

import "github.com/twmb/franz-go/pkg/kmsg"

// describeShareGroupOffsets tells where share groups start.
//
// Versions: 0-1.
// Needs: DESCRIBE on GROUP, then DESCRIBE on each TOPIC.
// Differs from Kafka: nothing known.
func describeShareGroupOffsets() through[*kmsg.DescribeShareGroupOffsetsRequest, *kmsg.DescribeShareGroupOffsetsResponse] {
	return through[*kmsg.DescribeShareGroupOffsetsRequest, *kmsg.DescribeShareGroupOffsetsResponse]{topics: []string{"Groups.Topics.Topic"}}
}
