package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// describeTopicPartitions describes topics page by page.
//
// Versions: 0.
// Needs: DESCRIBE on each TOPIC; without names the others are left out.
// Differs from Kafka: nothing known.
func describeTopicPartitions() through[*kmsg.DescribeTopicPartitionsRequest, *kmsg.DescribeTopicPartitionsResponse] {
	return through[*kmsg.DescribeTopicPartitionsRequest, *kmsg.DescribeTopicPartitionsResponse]{
		topics: []string{"Topics.Topic"},
		permit: func(q *call, req *kmsg.DescribeTopicPartitionsRequest) bool {
			return q.server.o.Authorizer == nil && !q.server.o.Engine.Remote() || q.permitPage(req)
		},
		after: func(q *call, _ *kmsg.DescribeTopicPartitionsRequest, resp *kmsg.DescribeTopicPartitionsResponse) {
			known := q.faces()
			for i := range resp.Topics {
				for j := range resp.Topics[i].Partitions {
					p := &resp.Topics[i].Partitions[j]
					p.LeaderID, _ = known.leader(p.LeaderID, p.ErrorCode, false) // no error, as in Kafka
					p.OfflineReplicas = known.offline(p.Replicas, p.OfflineReplicas)
				}
				if t := &resp.Topics[i]; t.Topic != nil && (t.ErrorCode == 0 || t.ErrorCode == kerr.UnknownTopicOrPartition.Code) {
					t.AuthorizedOperations = q.operations(true, acl.Topic, *t.Topic)
				}
			}
		},
	}
}

// longestTopicPage is how many partitions one page has at most (max.request.partition.size.limit).
const longestTopicPage = 2000

// permitPage makes a request name the topics from its cursor on that its sender may describe: the data plane makes pages of what
// it is asked for, and the cursor to the next would tell of the others.
func (q *call) permitPage(req *kmsg.DescribeTopicPartitionsRequest) bool {
	var names []string
	for _, t := range req.Topics {
		names = append(names, t.Topic)
	}
	all := len(names) == 0
	if all {
		names = q.server.o.Engine.TopicNames()
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if c := req.Cursor; c != nil {
		if _, there := slices.BinarySearch(names, c.Topic); !all && c.Topic != "" && !there {
			q.refuse(req, kerr.InvalidRequest, "")
			return false
		}
		from, _ := slices.BinarySearch(names, c.Topic)
		names = names[from:]
	}
	room := int(min(max(req.ResponsePartitionLimit, 1), longestTopicPage)) + 1 // one more, so that there is a next page
	refused := kmsg.NewPtrDescribeTopicPartitionsResponse()
	req.Topics = nil
	for _, name := range names {
		switch {
		case all && len(req.Topics) == room:
		case all && !q.mayQuietly(acl.Describe, acl.Topic, name):
		case !all && !q.may(acl.Describe, acl.Topic, name):
			no := kmsg.NewDescribeTopicPartitionsResponseTopic()
			no.Topic, no.ErrorCode = &name, kerr.TopicAuthorizationFailed.Code
			refused.Topics = append(refused.Topics, no)
		default:
			t := kmsg.NewDescribeTopicPartitionsRequestTopic()
			t.Topic = name
			req.Topics = append(req.Topics, t)
		}
	}
	if len(refused.Topics) > 0 {
		q.refused = append(q.refused, refused)
	}
	if len(req.Topics) == 0 {
		q.answer(emptyResponse(req))
		return false
	}
	if c := req.Cursor; c != nil && c.Topic != req.Topics[0].Topic {
		req.Cursor = nil
	}
	return true
}
