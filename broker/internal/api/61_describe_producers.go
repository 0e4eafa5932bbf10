package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/internal/engine"
)

// describeProducers lists the producers that write to partitions.
//
// Versions: 0.
// Needs: READ on each TOPIC.
// Differs from Kafka: nothing known.
func describeProducers() through[*kmsg.DescribeProducersRequest, *kmsg.DescribeProducersResponse] {
	return through[*kmsg.DescribeProducersRequest, *kmsg.DescribeProducersResponse]{
		topics: []string{"Topics.Topic"},
		permit: func(q *call, req *kmsg.DescribeProducersRequest) bool {
			return q.validTopics(req) && q.permit(req, right{acl.Read, acl.Topic, "Topics"})
		},
		after: func(q *call, _ *kmsg.DescribeProducersRequest, resp *kmsg.DescribeProducersResponse) {
			for i := range resp.Topics {
				t := &resp.Topics[i]
				if _, exists := q.server.o.Engine.TopicID(t.Topic); exists {
					continue
				}
				for j := range t.Partitions {
					if p := &t.Partitions[j]; p.ErrorCode == kerr.UnknownTopicOrPartition.Code {
						p.ErrorMessage = new("This server does not host this topic-partition.")
					}
				}
			}
		},
	}
}

// validTopics refuses names that no topic has, whoever asks, and tells whether any other is left.
func (q *call) validTopics(req *kmsg.DescribeProducersRequest) bool {
	refused := kmsg.NewPtrDescribeProducersResponse()
	req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.DescribeProducersRequestTopic) bool {
		why := engine.CheckTopicName(t.Topic)
		if why == "" {
			return false
		}
		no := kmsg.NewDescribeProducersResponseTopic()
		no.Topic = t.Topic
		for _, partition := range t.Partitions {
			p := kmsg.NewDescribeProducersResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = partition, kerr.InvalidTopicException.Code, &why
			no.Partitions = append(no.Partitions, p)
		}
		refused.Topics = append(refused.Topics, no)
		return true
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
