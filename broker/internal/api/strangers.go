package api

import (
	"errors"
	"reflect"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/internal/engine"
)

// Rules are about names, and many requests name a topic by its id. Of a topic that was made through another broker this one
// hears when it next looks at the data plane, which knows it already: a request that comes before that must not pass because
// nothing is known to ask for. So its ids are asked for first, and what is a stranger after that is no topic for anybody.

// mostStrangers is how many ids of one request are asked for.
const mostStrangers = 1000

// acquaint has next run once the names are known of the topics that a request gives by their ids: at once, or on another worker.
func (q *call) acquaint(req kmsg.Request, next func()) {
	strangers := q.strangers(req)
	if len(strangers) == 0 {
		next()
		return
	}
	ask := kmsg.NewPtrMetadataRequest()
	ask.Version = 12 // the first that takes ids
	for _, id := range strangers {
		t := kmsg.NewMetadataRequestTopic()
		t.TopicID = id
		ask.Topics = append(ask.Topics, t)
	}
	client := q.engineClient()
	if client == nil {
		return // the connection is gone
	}
	client.Do(ask, func(_ kmsg.Response, err error) { // the data plane's door has learnt from the answer
		defer q.survive()
		if errors.Is(err, engine.ErrUnavailable) || errors.Is(err, engine.ErrClosed) {
			q.again = func() { q.acquaint(req, next) }
			q.fail(req, err)
			return
		}
		q.then(next)
	})
}

// strangers are the ids of topics in a request that nothing is known of.
func (q *call) strangers(req kmsg.Request) (ids [][16]byte) {
	if !q.server.o.Engine.Remote() {
		return nil // a data plane in this process makes no topic that is not known at once
	}
	note := func(id [16]byte) {
		if _, known := q.server.o.Engine.TopicName(id); !known && id != [16]byte{} && len(ids) < mostStrangers {
			ids = append(ids, id)
		}
	}
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		for i := range r.Topics {
			note(r.Topics[i].TopicID)
		}
	case *kmsg.FetchRequest:
		for i := range r.Topics {
			note(r.Topics[i].TopicID)
		}
	case *kmsg.MetadataRequest, *kmsg.ConsumerGroupHeartbeatRequest: // rights are asked for by the names in the answer, or there are none
	default:
		eachTopicID(reflect.ValueOf(req).Elem(), note)
	}
	return ids
}

// eachTopicID calls note for each TopicID of a message, at all depths.
func eachTopicID(v reflect.Value, note func([16]byte)) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Type() == reflect.TypeFor[[16]byte]() && v.Type().Field(i).Name == "TopicID":
			id, _ := reflect.TypeAssert[[16]byte](f)
			note(id)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct:
			for j := range f.Len() {
				eachTopicID(f.Index(j), note)
			}
		}
	}
}

// partStrangers takes the topics out of a request whose ids are those of no topic, and answers them so.
func (q *call) partStrangers(req kmsg.Request) (field reflect.Value) {
	field = reflect.ValueOf(req).Elem().FieldByName("Topics")
	if !q.server.o.Engine.Remote() {
		return field // it knows all that there is, and says so itself
	}
	parted := q.takeOut(req, right{kind: acl.Topic, field: "Topics"}, field, func(_ string, known bool, _ reflect.Value) bool { return !known })
	if parted != nil {
		q.refused = append(q.refused, refusedParts(parted, kerr.UnknownTopicID.Code, ""))
	}
	return field
}
