package api

import "github.com/twmb/franz-go/pkg/kmsg"

// describeTopicPartitions describes topics page by page.
//
// Versions: 0.
// Needs: DESCRIBE on each TOPIC; without names the others are left out.
// Differs from Kafka: nothing known.
func describeTopicPartitions() through[*kmsg.DescribeTopicPartitionsRequest, *kmsg.DescribeTopicPartitionsResponse] {
	return through[*kmsg.DescribeTopicPartitionsRequest, *kmsg.DescribeTopicPartitionsResponse]{topics: []string{"Topics.Topic"}}
}
