package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// createPartitions adds partitions to topics.
//
// Versions: 0-3.
// Needs: ALTER on each TOPIC.
// Differs from Kafka: nothing known.
func createPartitions() through[*kmsg.CreatePartitionsRequest, *kmsg.CreatePartitionsResponse] {
	return through[*kmsg.CreatePartitionsRequest, *kmsg.CreatePartitionsResponse]{
		topics: []string{"Topics.Topic"},
		permit: func(q *call, req *kmsg.CreatePartitionsRequest) bool {
			return q.uniqueGrowth(req) && q.permit(req, right{acl.Alter, acl.Topic, "Topics"})
		},
	}
}

// uniqueGrowth takes the topics out of a request that it names twice, and tells whether any is left. Kafka refuses them whoever asks.
func (q *call) uniqueGrowth(req *kmsg.CreatePartitionsRequest) bool {
	count := map[string]int{}
	for i := range req.Topics {
		count[req.Topics[i].Topic]++
	}
	refused := kmsg.NewPtrCreatePartitionsResponse()
	req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.CreatePartitionsRequestTopic) bool {
		n := count[t.Topic]
		if n > 1 {
			r := kmsg.NewCreatePartitionsResponseTopic()
			r.Topic, r.ErrorCode, r.ErrorMessage = t.Topic, kerr.InvalidRequest.Code, nonEmpty("Duplicate topic name.")
			refused.Topics = append(refused.Topics, r)
			count[t.Topic] = 0 // and is answered
		}
		return n != 1
	})
	if len(refused.Topics) > 0 {
		q.refused = append(q.refused, refused)
		if len(req.Topics) == 0 {
			q.answer(emptyResponse(req))
			return false
		}
	}
	return true
}
