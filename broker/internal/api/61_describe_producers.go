package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// describeProducers lists the producers that write to partitions.
//
// Versions: 0.
// Needs: READ on each TOPIC.
// Differs from Kafka: nothing known.
func describeProducers() through[*kmsg.DescribeProducersRequest, *kmsg.DescribeProducersResponse] {
	return through[*kmsg.DescribeProducersRequest, *kmsg.DescribeProducersResponse]{rights: []right{{acl.Read, acl.Topic, "Topics"}}, topics: []string{"Topics.Topic"}}
}
