package engine

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// admitProduce lets the good batches of a request pass.
//
// Refused batches are answered here, as are topic ids that are not known, of which the data plane does not survive
// two; it gets names (version 12) only. acks=0 becomes acks=1, so that the client's link tells what became of it.
func admitProduce(e *Engine, req *kmsg.ProduceRequest) (passage, error) {
	n := len(req.Topics)
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	if n > maxElements {
		return passage{}, refuse(req, kerr.InvalidRequest, "too many elements")
	}
	question, since := e.askPolicies(req)
	if question == nil {
		return e.admitBatches(req)
	}
	return passage{req: question, then: func(resp kmsg.Response) (passage, error) {
		described, _ := resp.(*kmsg.DescribeConfigsResponse)
		e.policies.learn(since, described)
		return e.admitBatches(req)
	}}, nil
}

// admitBatches judges the batches of a request whose topics are known.
func (e *Engine) admitBatches(req *kmsg.ProduceRequest) (passage, error) {
	out := *req
	if out.Acks == 0 {
		out.Acks = 1
	}
	byID := req.Version >= firstProduceByID
	if byID {
		out.Version = firstProduceByID - 1
	}
	out.Topics = make([]kmsg.ProduceRequestTopic, 0, len(req.Topics))
	var refused []kmsg.ProduceResponseTopic
	budget := int64(maxInflatedRequest)
	var ids map[string][16]byte // of the topics that were asked for by id
	if byID {
		ids = make(map[string][16]byte, len(req.Topics))
	}
	for i := range req.Topics {
		t := req.Topics[i]
		if byID {
			name, known := e.topics.name(t.TopicID)
			if !known {
				refused = append(refused, refuseTopic(&t, kerr.UnknownTopicID))
				continue
			}
			t.Topic = name
			ids[name] = t.TopicID
		} else {
			t.TopicID, _ = e.topics.id(t.Topic) // not sent, but the windows go by it
		}
		good, bad := e.batches.sift(&t, req.Version, &budget, e.policies.compacted(t.Topic))
		if len(bad) > 0 {
			refused = append(refused, kmsg.ProduceResponseTopic{Topic: t.Topic, TopicID: ids[t.Topic], Partitions: bad})
		}
		if t.Partitions = good; len(good) > 0 {
			out.Topics = append(out.Topics, t)
		}
	}
	if len(out.Topics) == 0 {
		resp, _ := req.ResponseKind().(*kmsg.ProduceResponse)
		resp.Topics = refused
		return passage{answer: resp}, nil
	}
	return passage{req: &out, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.ProduceResponse)
		e.windows.settle(&out, r)
		r.Version = req.Version
		for i := range r.Topics {
			r.Topics[i].TopicID = ids[r.Topics[i].Topic]
		}
		r.Topics = merge(r.Topics, refused)
		return r, nil
	}}, nil
}

// firstProduceByID is the version of Produce that names topics by id.
const firstProduceByID = 13

// sift parts the batches that may pass from the answers to the others. It allocates nothing when all are good.
func (j *batches) sift(t *kmsg.ProduceRequestTopic, version int16, budget *int64, compacted bool) (good []kmsg.ProduceRequestTopicPartition, bad []kmsg.ProduceResponseTopicPartition) {
	all := t.Partitions
	good = all
	for i := range all {
		v := j.check(all[i].Records, version, budget)
		if compacted && v.err == nil && !j.keyed(all[i].Records) {
			v = verdict{kerr.InvalidRecord, fmt.Sprintf("Compacted topic cannot accept message without key in topic partition %s-%d.", t.Topic, all[i].Partition)}
		}
		if v.err == nil {
			if bad != nil {
				good = append(good, all[i])
			}
			continue
		}
		if bad == nil {
			good = append(make([]kmsg.ProduceRequestTopicPartition, 0, len(all)-1), all[:i]...)
		}
		bad = append(bad, refusePartition(all[i].Partition, v.err, v.why))
	}
	return good, bad
}

func refuseTopic(t *kmsg.ProduceRequestTopic, err *kerr.Error) kmsg.ProduceResponseTopic {
	out := kmsg.NewProduceResponseTopic()
	out.Topic, out.TopicID = t.Topic, t.TopicID
	for i := range t.Partitions {
		out.Partitions = append(out.Partitions, refusePartition(t.Partitions[i].Partition, err, err.Description))
	}
	return out
}

func refusePartition(partition int32, err *kerr.Error, why string) kmsg.ProduceResponseTopicPartition {
	out := kmsg.NewProduceResponseTopicPartition()
	out.Partition = partition
	out.ErrorCode = err.Code
	out.ErrorMessage = &why
	out.BaseOffset, out.LogStartOffset, out.LogAppendTime = -1, -1, -1
	return out
}

// merge adds the refused partitions to the topics that were answered.
func merge(topics, refused []kmsg.ProduceResponseTopic) []kmsg.ProduceResponseTopic {
next:
	for _, r := range refused {
		for i := range topics {
			if topics[i].Topic == r.Topic && topics[i].TopicID == r.TopicID {
				topics[i].Partitions = append(topics[i].Partitions, r.Partitions...)
				continue next
			}
		}
		topics = append(topics, r)
	}
	return topics
}
