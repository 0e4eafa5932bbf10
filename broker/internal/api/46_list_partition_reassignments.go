package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// listPartitionReassignments lists partitions that are being moved.
//
// Versions: 0.
// Needs: DESCRIBE on CLUSTER.
// Differs from Kafka: nothing known.
func listPartitionReassignments() through[*kmsg.ListPartitionReassignmentsRequest, *kmsg.ListPartitionReassignmentsResponse] {
	return through[*kmsg.ListPartitionReassignmentsRequest, *kmsg.ListPartitionReassignmentsResponse]{rights: []right{cluster(acl.Describe)}, topics: []string{"Topics.Topic"}}
}
