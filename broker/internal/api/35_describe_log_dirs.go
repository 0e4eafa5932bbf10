package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// describeLogDirs tells the sizes of partitions.
//
// Versions: 1-5.
// Needs: DESCRIBE on CLUSTER.
// Differs from Kafka: nothing known.
func describeLogDirs() through[*kmsg.DescribeLogDirsRequest, *kmsg.DescribeLogDirsResponse] {
	return through[*kmsg.DescribeLogDirsRequest, *kmsg.DescribeLogDirsResponse]{rights: []right{cluster(acl.Describe)}, topics: []string{"Topics.Topic"}}
}
