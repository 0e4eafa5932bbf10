package api

import (
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// Brokers that share their metadata keep it in topics, which may be in the data plane's own cluster. Clients see nothing of those:
// what they ask of one is answered as of a topic that does not exist, here for what names it in a request and in package engine for
// lists and ids; and none can be made.

// hidden tells whether clients see nothing of a topic.
func (s *Server) hidden(topic string) bool { return s.o.Hidden != nil && s.o.Hidden(topic) }

// hide takes what names a hidden topic out of a request on its way to the data plane. False: nothing is left, and it has answered.
func (q *call) hide(req kmsg.Request) bool {
	if q.server.o.Hidden == nil || !q.server.o.Engine.Remote() {
		return true // a broker alone has none
	}
	v := reflect.ValueOf(req).Elem()
	if names := v.FieldByName("SubscribedTopicNames"); names.IsValid() {
		// A member of a group does not get what does not exist. Nil stays nil: the list is as it was.
		list, _ := reflect.TypeAssert[[]string](names)
		names.Set(reflect.ValueOf(slices.DeleteFunc(slices.Clone(list), q.server.hidden)))
		return true
	}
	switch req.(type) {
	case *kmsg.MetadataRequest, *kmsg.CreateTopicsRequest: // see to it themselves
		return true
	case *kmsg.OffsetFetchRequest, *kmsg.DescribeLogDirsRequest, *kmsg.ListPartitionReassignmentsRequest:
		return true // what does not exist is no error there
	}
	if q.topicsByID() {
		return q.hideStrangers(req)
	}
	for _, name := range []string{"Topics", "TopicNames"} {
		field := v.FieldByName(name)
		if !field.IsValid() || field.Len() == 0 {
			continue
		}
		parted := q.takeOut(req, right{kind: acl.Topic, field: name}, field, func(topic string, named bool, _ reflect.Value) bool {
			return named && q.server.hidden(topic)
		})
		if parted == nil {
			continue
		}
		q.refused = append(q.refused, refusedParts(parted, kerr.UnknownTopicOrPartition.Code, ""))
		switch txn, ok := req.(*kmsg.AddPartitionsToTxnRequest); {
		case ok && len(txn.Topics) > 0:
			q.answer(errorResponse(req, kerr.OperationNotAttempted.Code, "")) // all or none
			return false
		case field.Len() == 0 && !namesMore(v, name):
			q.answer(emptyResponse(req))
			return false
		}
	}
	return true
}

// hideStrangers does so where topics are named by their ids: hidden ones have none that is known.
func (q *call) hideStrangers(req kmsg.Request) bool {
	switch req.(type) {
	case *kmsg.ShareFetchRequest, *kmsg.ShareAcknowledgeRequest: // belong to a session, see permitShares
		return true
	}
	if field := q.partStrangers(req); field.Len() == 0 && len(q.refused) > 0 {
		q.answer(emptyResponse(req))
		return false
	}
	return true
}

// namesMore tells whether a request names topics in another field than that of a name.
func namesMore(req reflect.Value, name string) bool {
	for _, other := range []string{"Topics", "TopicNames"} {
		if f := req.FieldByName(other); other != name && f.IsValid() && f.Len() > 0 {
			return true
		}
	}
	return false
}

// hiddenConfig tells whether a resource whose configs are asked for is a hidden topic.
func (s *Server) hiddenConfig(kind kmsg.ConfigResourceType, name string) bool {
	return kind == kmsg.ConfigResourceTypeTopic && s.hidden(name)
}
