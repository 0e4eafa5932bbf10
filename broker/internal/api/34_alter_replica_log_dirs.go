package api

import (
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// alterReplicaLogDirs moves partitions between log directories. There is one, where they all are.
//
// Versions: 1-2.
// Needs: ALTER on CLUSTER.
// Differs from Kafka: nothing known.
func alterReplicaLogDirs(q *call, req *kmsg.AlterReplicaLogDirsRequest) {
	type partition struct {
		topic string
		index int32
	}
	allowed := q.may(acl.Alter, acl.Cluster, acl.ClusterName)
	codes := map[partition]int16{} // the last directory that a partition is to move to counts
	var order []partition
	dir := q.server.o.Engine.LogDir()
	for _, d := range req.Dirs {
		there := filepath.IsAbs(d.Dir) && filepath.Clean(d.Dir) == filepath.Clean(dir)
		for _, t := range d.Topics {
			for _, index := range t.Partitions {
				p := partition{t.Topic, index}
				if _, again := codes[p]; !again {
					order = append(order, p)
				}
				switch {
				case !allowed:
					codes[p] = kerr.ClusterAuthorizationFailed.Code
				case !there:
					codes[p] = kerr.LogDirNotFound.Code
				case index < 0 || int(index) >= q.server.o.Engine.Partitions(t.Topic):
					codes[p] = kerr.UnknownTopicOrPartition.Code
				default:
					codes[p] = 0
				}
			}
		}
	}
	resp := kmsg.NewPtrAlterReplicaLogDirsResponse()
	topics := map[string]int{}
	for _, p := range order {
		i, ok := topics[p.topic]
		if !ok {
			i = len(resp.Topics)
			topics[p.topic] = i
			t := kmsg.NewAlterReplicaLogDirsResponseTopic()
			t.Topic = p.topic
			resp.Topics = append(resp.Topics, t)
		}
		one := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
		one.Partition, one.ErrorCode = p.index, codes[p]
		resp.Topics[i].Partitions = append(resp.Topics[i].Partitions, one)
	}
	q.answer(resp)
}
