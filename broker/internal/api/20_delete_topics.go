package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// deleteTopics removes topics and their records.
//
// Versions: 1-6.
// Needs: DELETE on each TOPIC (DESCRIBE reveals the name of one given by id).
// Differs from Kafka: nothing known.
func deleteTopics() through[*kmsg.DeleteTopicsRequest, *kmsg.DeleteTopicsResponse] {
	return through[*kmsg.DeleteTopicsRequest, *kmsg.DeleteTopicsResponse]{
		topics: []string{"TopicNames", "Topics.Topic", "Topics.TopicID"},
		permit: func(q *call, req *kmsg.DeleteTopicsRequest) bool {
			asked := len(req.TopicNames) + len(req.Topics)
			refused := kmsg.NewPtrDeleteTopicsResponse()
			refuse := func(t kmsg.DeleteTopicsResponseTopic) { refused.Topics = append(refused.Topics, t) }
			req.TopicNames = slices.DeleteFunc(req.TopicNames, func(name string) bool { return q.keepTopic(name, [16]byte{}, refuse) })
			req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.DeleteTopicsRequestTopic) bool {
				if t.Topic != nil {
					return q.keepTopic(*t.Topic, [16]byte{}, refuse)
				}
				name, known := q.server.o.Engine.TopicName(t.TopicID)
				if !known && q.server.o.Engine.Remote() {
					refuse(unhosted(t.TopicID))
					return true
				}
				return known && q.keepTopic(name, t.TopicID, refuse)
			})
			if len(refused.Topics) > 0 {
				q.refused = append(q.refused, refused)
			}
			if asked > 0 && len(req.TopicNames)+len(req.Topics) == 0 {
				q.answer(emptyResponse(req))
				return false
			}
			return true
		},
	}
}

// unhosted is what the deletion of a topic is answered that nobody has.
func unhosted(id [16]byte) kmsg.DeleteTopicsResponseTopic {
	t := kmsg.NewDeleteTopicsResponseTopic()
	t.TopicID, t.ErrorCode, t.ErrorMessage = id, kerr.UnknownTopicID.Code, new("This server does not host this topic ID.")
	return t
}

// keepTopic refuses the deletion of a topic whose sender may not delete it; id is how it was named, if not by name. Who may
// describe a topic is told that it is not there.
func (q *call) keepTopic(name string, id [16]byte, refuse func(kmsg.DeleteTopicsResponseTopic)) bool {
	if q.may(acl.Delete, acl.Topic, name) {
		return false
	}
	_, exists := q.server.o.Engine.TopicID(name)
	describes := q.mayQuietly(acl.Describe, acl.Topic, name)
	if !exists && describes {
		return false // and is told so
	}
	t := kmsg.NewDeleteTopicsResponseTopic()
	t.TopicID, t.ErrorCode, t.ErrorMessage = id, kerr.TopicAuthorizationFailed.Code, new(denialText(acl.Topic))
	if id == [16]byte{} || describes {
		t.Topic = &name
	}
	refuse(t)
	return true
}
