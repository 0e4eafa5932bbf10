package api

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// metadataTopic is the name Kafka's tools ask for the metadata log by.
const metadataTopic = "__cluster_metadata"

// describeQuorum tells who follows the metadata log.
//
// Versions: 0-2.
// Needs: DESCRIBE on CLUSTER.
// Differs from Kafka: the log is not replicated by Raft, and its offsets are those of brokerlab's metadata log. A broker alone
// is its only voter. Where brokers share one, which another cluster holds, the voter is the live one with the lowest id, and the
// others are observers; how far those are is known of the broker that answers alone, and -1 of the others.
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
	for _, one := range q.faces().live() {
		listener := kmsg.NewDescribeQuorumResponseNodeListener()
		listener.Name, listener.Host, listener.Port = q.conn.Listener().Name, one.at.Host, uint16(one.at.Port)
		node := kmsg.NewDescribeQuorumResponseNode()
		node.NodeID = one.id
		node.Listeners = append(node.Listeners, listener)
		resp.Nodes = append(resp.Nodes, node)
	}
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
	image := q.server.o.Metadata.Image()
	p.LeaderID, p.LeaderEpoch, p.HighWatermark = noNode, 1, image.Offset()
	for _, node := range followers(image, q.server.o.NodeID) {
		state := q.follower(node, image.Offset())
		if p.LeaderID == noNode {
			p.LeaderID = node
			p.CurrentVoters = append(p.CurrentVoters, state)
			continue
		}
		p.Observers = append(p.Observers, state)
	}
	return p
}

// followers are the live brokers that follow the metadata log, by id; a broker alone is the only one.
func followers(image *metadata.Image, alone int32) []int32 {
	registered := image.Brokers()
	if len(registered) == 0 {
		return []int32{alone}
	}
	var live []int32
	for i := range registered {
		if b := &registered[i]; !b.Fenced {
			live = append(live, b.ID)
		}
	}
	return live
}

// follower is how far a broker is; offset is how far this one is.
func (q *call) follower(node int32, offset int64) kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
	state := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
	state.ReplicaID, state.LogEndOffset, state.LastFetchTimestamp, state.LastCaughtUpTimestamp = node, -1, -1, -1
	if node == q.server.o.NodeID {
		now := time.Now().UnixMilli()
		state.LogEndOffset, state.LastFetchTimestamp, state.LastCaughtUpTimestamp = offset, now, now
	}
	return state
}
