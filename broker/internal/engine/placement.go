package engine

import "github.com/twmb/franz-go/pkg/kmsg"

// Kafka's controller gives the partitions of a new topic to the brokers in turn (StripedReplicaPlacer), and a broker that comes back
// leads again what it led. kfake draws lots for each, anew at each start; so its lots are corrected, by the topic's id, which lasts.

// placeAll does so at a start. Each partition's epoch rises alike, whatever kfake drew: one that had fallen would be that of a leader
// whom clients do not follow.
func (e *Engine) placeAll() {
	plane, _ := e.plane.(*kfakePlane)
	for _, topic := range e.topics.all() {
		id, _ := e.topics.id(topic)
		for partition := range int32(e.topics.size(topic)) {
			_ = plane.cluster.MoveTopicPartition(topic, partition, e.placed(id, partition)) // it is there: nobody is served yet
		}
	}
}

// placeNew does so with what a request has made.
func (e *Engine) placeNew(resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		for i := range r.Topics {
			e.place(r.Topics[i].Topic, r.Topics[i].ErrorCode)
		}
	case *kmsg.CreatePartitionsResponse:
		for i := range r.Topics {
			e.place(r.Topics[i].Topic, r.Topics[i].ErrorCode)
		}
	}
}

func (e *Engine) place(topic string, code int16) {
	id, there := e.topics.id(topic)
	if code != 0 || !there {
		return
	}
	plane, _ := e.plane.(*kfakePlane)
	for partition := range int32(e.topics.size(topic)) {
		if to := e.placed(id, partition); plane.cluster.LeaderFor(topic, partition) != to {
			_ = plane.cluster.MoveTopicPartition(topic, partition, to) // unless it is gone again
		}
	}
}

// placed is the node of a partition.
func (e *Engine) placed(topic [16]byte, partition int32) int32 {
	return e.nodes[(int(topic[0])+int(partition))%len(e.nodes)]
}
