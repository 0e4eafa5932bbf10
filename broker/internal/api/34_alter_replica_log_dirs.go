package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// alterReplicaLogDirs moves partitions between log directories.
//
// Versions: 1-2.
// Needs: ALTER on CLUSTER.
// Differs from Kafka: nothing known.
func alterReplicaLogDirs() through[*kmsg.AlterReplicaLogDirsRequest, *kmsg.AlterReplicaLogDirsResponse] {
	return through[*kmsg.AlterReplicaLogDirsRequest, *kmsg.AlterReplicaLogDirsResponse]{
		topics: []string{"Dirs.Topics.Topic"},
		permit: func(q *call, req *kmsg.AlterReplicaLogDirsRequest) bool {
			if q.may(acl.Alter, acl.Cluster, acl.ClusterName) {
				return true
			}
			resp := kmsg.NewPtrAlterReplicaLogDirsResponse()
			for _, d := range req.Dirs {
				for _, t := range d.Topics {
					topic := kmsg.NewAlterReplicaLogDirsResponseTopic()
					topic.Topic = t.Topic
					for _, partition := range t.Partitions {
						p := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
						p.Partition, p.ErrorCode = partition, kerr.ClusterAuthorizationFailed.Code
						topic.Partitions = append(topic.Partitions, p)
					}
					resp.Topics = append(resp.Topics, topic)
				}
			}
			q.answer(resp)
			return false
		},
	}
}
