package api

import "github.com/twmb/franz-go/pkg/kmsg"

// alterReplicaLogDirs moves partitions between log directories.
//
// Versions: 1-2.
// Needs: ALTER on CLUSTER.
// Differs from Kafka: nothing known.
func alterReplicaLogDirs() through[*kmsg.AlterReplicaLogDirsRequest, *kmsg.AlterReplicaLogDirsResponse] {
	return through[*kmsg.AlterReplicaLogDirsRequest, *kmsg.AlterReplicaLogDirsResponse]{topics: []string{"Dirs.Topics.Topic"}}
}
