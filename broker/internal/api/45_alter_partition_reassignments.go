package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// alterPartitionReassignments moves partitions between brokers.
//
// Versions: 0-1.
// Needs: ALTER on CLUSTER.
// Differs from Kafka: nothing known.
func alterPartitionReassignments() through[*kmsg.AlterPartitionAssignmentsRequest, *kmsg.AlterPartitionAssignmentsResponse] {
	return through[*kmsg.AlterPartitionAssignmentsRequest, *kmsg.AlterPartitionAssignmentsResponse]{rights: []right{cluster(acl.Alter)}, topics: []string{"Topics.Topic"}}
}
