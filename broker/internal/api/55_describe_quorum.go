package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// metadataTopic is the name Kafka's tools ask for the metadata log by.
const metadataTopic = "__cluster_metadata"

// describeQuorum tells who keeps the metadata log: this broker alone.
//
// Versions: 0-2.
// Needs: DESCRIBE on CLUSTER.
// Differs from Kafka: the log is not replicated by Raft. Its only voter is the broker, and its
// offsets are those of brokerlab's metadata log.
func describeQuorum(_ context.Context, q *call, req *kmsg.DescribeQuorumRequest) (*kmsg.DescribeQuorumResponse, error) {
	resp := kmsg.NewPtrDescribeQuorumResponse()
	for _, t := range req.Topics {
		topic := kmsg.NewDescribeQuorumResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			topic.Partitions = append(topic.Partitions, q.quorum(t.Topic, p.Partition))
		}
		resp.Topics = append(resp.Topics, topic)
	}
	at := q.endpoint()
	listener := kmsg.NewDescribeQuorumResponseNodeListener()
	listener.Name, listener.Host, listener.Port = q.conn.Listener().Name, at.Host, uint16(at.Port)
	node := kmsg.NewDescribeQuorumResponseNode()
	node.NodeID = q.server.o.NodeID
	node.Listeners = append(node.Listeners, listener)
	resp.Nodes = append(resp.Nodes, node)
	return resp, nil
}

func (q *call) quorum(topic string, partition int32) kmsg.DescribeQuorumResponseTopicPartition {
	p := kmsg.NewDescribeQuorumResponseTopicPartition()
	p.Partition = partition
	if topic != metadataTopic || partition != 0 {
		p.ErrorCode = kerr.UnknownTopicOrPartition.Code
		p.ErrorMessage = nonEmpty(kerr.UnknownTopicOrPartition.Description)
		p.LeaderID, p.LeaderEpoch, p.HighWatermark = -1, -1, -1
		return p
	}
	end := q.server.o.Metadata.Image().Offset()
	now := time.Now().UnixMilli()
	voter := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
	voter.ReplicaID, voter.LogEndOffset = q.server.o.NodeID, end
	voter.LastFetchTimestamp, voter.LastCaughtUpTimestamp = now, now
	p.LeaderID, p.LeaderEpoch, p.HighWatermark = q.server.o.NodeID, 1, end
	p.CurrentVoters = append(p.CurrentVoters, voter)
	return p
}
