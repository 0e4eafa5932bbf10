package engine

import "github.com/twmb/franz-go/pkg/kmsg"

// epochOf is one partition that was asked for the end of an epoch.
type epochOf struct {
	topic     string
	partition int32
}

// admitOffsetForLeaderEpoch tells where an epoch ended after which nothing was written: at the end of the log, where the
// present epoch begins. The data plane says that it does not know such an epoch, which a consumer takes for lost
// records: after each start of the broker it would begin anew.
func admitOffsetForLeaderEpoch(_ *Engine, req *kmsg.OffsetForLeaderEpochRequest) (passage, error) {
	return passage{req: req, then: func(resp kmsg.Response) (passage, error) {
		r, _ := resp.(*kmsg.OffsetForLeaderEpochResponse)
		asked := map[epochOf]int32{}
		for i := range req.Topics {
			for _, p := range req.Topics[i].Partitions {
				asked[epochOf{req.Topics[i].Topic, p.Partition}] = p.LeaderEpoch
			}
		}
		latest := kmsg.NewPtrListOffsetsRequest()
		latest.Version, latest.ReplicaID = 6, -1
		for i := range r.Topics {
			topic := kmsg.NewListOffsetsRequestTopic()
			topic.Topic = r.Topics[i].Topic
			for _, p := range r.Topics[i].Partitions {
				if p.ErrorCode != 0 || p.EndOffset != -1 || asked[epochOf{topic.Topic, p.Partition}] < 0 {
					continue
				}
				one := kmsg.NewListOffsetsRequestTopicPartition()
				one.Partition, one.CurrentLeaderEpoch, one.Timestamp = p.Partition, -1, -1
				topic.Partitions = append(topic.Partitions, one)
			}
			if len(topic.Partitions) > 0 {
				latest.Topics = append(latest.Topics, topic)
			}
		}
		if len(latest.Topics) == 0 {
			return passage{answer: r}, nil
		}
		return passage{req: latest, correct: func(resp kmsg.Response) (kmsg.Response, error) {
			ends, _ := resp.(*kmsg.ListOffsetsResponse)
			endEpochs(r, asked, ends)
			return r, nil
		}}, nil
	}}, nil
}

// endEpochs fills in the ends of epochs before the present one.
func endEpochs(r *kmsg.OffsetForLeaderEpochResponse, asked map[epochOf]int32, latest *kmsg.ListOffsetsResponse) {
	type end struct {
		epoch  int32
		offset int64
	}
	ends := map[epochOf]end{}
	for i := range latest.Topics {
		for _, p := range latest.Topics[i].Partitions {
			if p.ErrorCode == 0 {
				ends[epochOf{latest.Topics[i].Topic, p.Partition}] = end{p.LeaderEpoch, p.Offset}
			}
		}
	}
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			p := &r.Topics[i].Partitions[j]
			of := epochOf{r.Topics[i].Topic, p.Partition}
			if now, ok := ends[of]; ok && p.EndOffset == -1 && asked[of] < now.epoch {
				p.LeaderEpoch, p.EndOffset = asked[of], now.offset
			}
		}
	}
}
