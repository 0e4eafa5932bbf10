package engine

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// claim is a producer's word that a transactional id is its own.
type claim struct {
	id       string
	producer int64
}

// whenOwned goes on to next when the claim is true. The data plane looks at the producer's id alone: whoever knows one
// could end the transaction of any transactional id, and would be told that one of no transaction was committed.
func whenOwned(next passage, c claim, refused func(code int16) kmsg.Response) (passage, error) {
	if c.id == "" {
		return passage{answer: refused(kerr.InvalidRequest.Code)}, nil
	}
	question := kmsg.NewPtrDescribeTransactionsRequest()
	question.TransactionalIDs = []string{c.id}
	return passage{req: question, about: c.id, then: func(resp kmsg.Response) (passage, error) {
		states, _ := resp.(*kmsg.DescribeTransactionsResponse)
		if len(states.TransactionStates) != 1 || states.TransactionStates[0].ErrorCode != 0 || states.TransactionStates[0].ProducerID != c.producer {
			return passage{answer: refused(kerr.InvalidProducerIDMapping.Code)}, nil
		}
		return next, nil
	}}, nil
}

func admitEndTxn(_ *Engine, req *kmsg.EndTxnRequest) (passage, error) {
	return whenOwned(passage{req: req}, claim{req.TransactionalID, req.ProducerID}, func(code int16) kmsg.Response {
		resp, _ := req.ResponseKind().(*kmsg.EndTxnResponse)
		resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = code, -1, -1
		return resp
	})
}

func admitAddOffsetsToTxn(_ *Engine, req *kmsg.AddOffsetsToTxnRequest) (passage, error) {
	return whenOwned(passage{req: req}, claim{req.TransactionalID, req.ProducerID}, func(code int16) kmsg.Response {
		resp, _ := req.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
		resp.ErrorCode = code
		return resp
	})
}

func admitAddPartitionsToTxn(_ *Engine, req *kmsg.AddPartitionsToTxnRequest) (passage, error) {
	return whenOwned(passage{req: req}, claim{req.TransactionalID, req.ProducerID}, func(code int16) kmsg.Response {
		resp, _ := req.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
		for _, t := range req.Topics {
			topic := kmsg.NewAddPartitionsToTxnResponseTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				one := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
				one.Partition, one.ErrorCode = p, code
				topic.Partitions = append(topic.Partitions, one)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp
	})
}

func admitTxnOffsetCommit(_ *Engine, req *kmsg.TxnOffsetCommitRequest) (passage, error) {
	refused := func(code int16) kmsg.Response {
		resp, _ := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
		for _, t := range req.Topics {
			topic := kmsg.NewTxnOffsetCommitResponseTopic()
			topic.Topic, topic.TopicID = t.Topic, t.TopicID
			for _, p := range t.Partitions {
				one := kmsg.NewTxnOffsetCommitResponseTopicPartition()
				one.Partition, one.ErrorCode = p.Partition, code
				topic.Partitions = append(topic.Partitions, one)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if tooLong(p.Metadata) {
				return passage{answer: refused(kerr.OffsetMetadataTooLarge.Code)}, nil
			}
		}
	}
	// The data plane does not tell that offsets are pending before it knows their group, which it makes of a simple
	// commit, even one of nothing; such a commit does nothing to a group that is there.
	group := kmsg.NewPtrOffsetCommitRequest()
	group.Version, group.Group, group.Generation = 8, req.Group, -1
	return whenOwned(passage{req: group, then: func(kmsg.Response) (passage, error) {
		return passage{req: req}, nil
	}}, claim{req.TransactionalID, req.ProducerID}, refused)
}
