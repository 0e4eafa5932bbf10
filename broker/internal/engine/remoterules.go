package engine

import (
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// remoteRules are [rules] for a data plane somewhere else: Kafka, or one of ours, whose [Host] has them. Requests pass as
// they are, but for what the front door promises: no topic comes of a Metadata, fetch sessions end here, acks=0 becomes
// acks=1 so that an error is noticed, one request is bounded, and hidden topics are hidden.
func remoteRules() map[int16]rule {
	out := make(map[int16]rule, len(rules()))
	for key, r := range rules() {
		out[key] = rule{max: r.max, counted: r.counted}
	}
	for key, admit := range map[kmsg.Key]func(*Engine, kmsg.Request) (passage, error){
		kmsg.Produce:                    on(passProduce),
		kmsg.Fetch:                      on(passFetch),
		kmsg.Metadata:                   on(passMetadata),
		kmsg.CreateTopics:               on(passCreateTopics),
		kmsg.DeleteTopics:               on(passDeleteTopics),
		kmsg.CreatePartitions:           on(passCreatePartitions),
		kmsg.DescribeLogDirs:            passWithoutHidden,
		kmsg.ElectLeaders:               discreet(on(passElectLeaders)),
		kmsg.AlterPartitionAssignments:  discreet(passAsItIs),
		kmsg.ListConfigResources:        on(passListConfigResources),
		kmsg.ListPartitionReassignments: discreet(passWithoutHidden),
		kmsg.DescribeTransactions:       passWithoutHidden,
		kmsg.ConsumerGroupDescribe:      passWithoutHidden,
		kmsg.ShareGroupDescribe:         passWithoutHidden,
		kmsg.OffsetFetch:                on(passOffsetFetch),
		kmsg.DescribeShareGroupOffsets:  on(passDescribeShareGroupOffsets),
		kmsg.ShareFetch:                 on(passShareFetch),
	} {
		r := out[key.Int16()]
		r.admit = admit
		out[key.Int16()] = r
	}
	return out
}

// isHidden tells whether nobody is to see a topic.
func (e *Engine) isHidden(topic string) bool {
	return e.topics.hidden != nil && e.topics.hidden(topic)
}

// passProduce lets batches pass unread: who keeps them checks them.
func passProduce(_ *Engine, req *kmsg.ProduceRequest) (passage, error) {
	n := len(req.Topics)
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	if n > maxElements {
		return passage{}, refuse(req, kerr.InvalidRequest, "too many elements")
	}
	if req.Acks != 0 {
		return passage{req: req}, nil
	}
	out := *req
	out.Acks = 1
	return passage{req: &out}, nil
}

func passFetch(e *Engine, req *kmsg.FetchRequest) (passage, error) { return admitFetch(e, req) }

func passShareFetch(e *Engine, req *kmsg.ShareFetchRequest) (passage, error) {
	return admitShareFetch(e, req)
}

// passMetadata never creates topics, which versions before 4 cannot ask not to be done.
func passMetadata(e *Engine, req *kmsg.MetadataRequest) (passage, error) {
	const canSaySo = 4
	out := *req
	out.AllowAutoTopicCreation = false
	out.Version = max(req.Version, canSaySo)
	if req.Version == 0 && len(req.Topics) == 0 {
		out.Topics = nil
	}
	return passage{req: &out, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.MetadataResponse)
		r.Version = req.Version
		e.topics.learn(r)
		if e.topics.hidden == nil {
			return r, nil
		}
		if req.Topics == nil {
			r.Topics = slices.DeleteFunc(r.Topics, func(t kmsg.MetadataResponseTopic) bool { return t.Topic != nil && e.isHidden(*t.Topic) })
			return r, nil
		}
		for i := range r.Topics {
			if t := &r.Topics[i]; t.Topic != nil && e.isHidden(*t.Topic) {
				*t = e.hide(req, t)
			}
		}
		return r, nil
	}}, nil
}

// hide is what a topic is answered that nobody is to see.
func (*Engine) hide(req *kmsg.MetadataRequest, t *kmsg.MetadataResponseTopic) kmsg.MetadataResponseTopic {
	no := kmsg.NewMetadataResponseTopic()
	for i := range req.Topics {
		if req.Topics[i].TopicID == t.TopicID && t.TopicID != ([16]byte{}) {
			no.TopicID, no.ErrorCode = t.TopicID, kerr.UnknownTopicID.Code
			return no
		}
	}
	no.Topic, no.ErrorCode = t.Topic, kerr.UnknownTopicOrPartition.Code
	return no
}

// passCreateTopics keeps hidden names free and follows what is made.
func passCreateTopics(e *Engine, req *kmsg.CreateTopicsRequest) (passage, error) {
	const namesIDs = 7
	out := *req
	out.Version = max(req.Version, min(namesIDs, (*e.versions.Load())[req.Key()].Max))
	out.Topics = make([]kmsg.CreateTopicsRequestTopic, 0, len(req.Topics))
	var refused []kmsg.CreateTopicsResponseTopic
	for i := range req.Topics {
		t := &req.Topics[i]
		if !e.isHidden(t.Topic) {
			out.Topics = append(out.Topics, *t)
			continue
		}
		no := kmsg.NewCreateTopicsResponseTopic()
		no.Topic, no.ErrorCode = t.Topic, kerr.InvalidTopicException.Code
		no.ErrorMessage = new("Creation of internal topic " + t.Topic + " is prohibited.")
		refused = append(refused, no)
	}
	if len(refused) > 0 && len(out.Topics) == 0 {
		resp, _ := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		resp.Topics = refused
		return passage{answer: resp}, nil
	}
	return passage{req: &out, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.CreateTopicsResponse)
		r.Version = req.Version
		for i := range r.Topics {
			if t := &r.Topics[i]; t.ErrorCode == 0 && !req.ValidateOnly && t.TopicID != ([16]byte{}) {
				e.topics.made(t.Topic, t.TopicID, int(max(t.NumPartitions, 1)))
			}
		}
		r.Topics = append(r.Topics, refused...)
		return r, nil
	}}, nil
}

// passDeleteTopics follows what is deleted.
func passDeleteTopics(e *Engine, req *kmsg.DeleteTopicsRequest) (passage, error) {
	return passage{req: req, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.DeleteTopicsResponse)
		for i := range r.Topics {
			t := &r.Topics[i]
			if t.ErrorCode != 0 {
				continue
			}
			if t.Topic != nil {
				e.topics.remove(*t.Topic)
			} else if name, ok := e.topics.name(t.TopicID); ok {
				e.topics.remove(name)
			}
		}
		return r, nil
	}}, nil
}

// passCreatePartitions follows what is made.
func passCreatePartitions(e *Engine, req *kmsg.CreatePartitionsRequest) (passage, error) {
	return passage{req: req, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.CreatePartitionsResponse)
		for _, made := range r.Topics {
			i := slices.IndexFunc(req.Topics, func(t kmsg.CreatePartitionsRequestTopic) bool { return t.Topic == made.Topic })
			if made.ErrorCode == 0 && i >= 0 && !req.ValidateOnly {
				e.topics.resize(made.Topic, int(req.Topics[i].Count))
			}
		}
		return r, nil
	}}, nil
}

// passWithoutHidden takes hidden topics out of an answer that lists what there is: also what somebody does with them who is a
// client of the far end itself.
func passWithoutHidden(e *Engine, req kmsg.Request) (passage, error) {
	return passage{req: req, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		e.withoutHidden(reflect.ValueOf(resp).Elem())
		return resp, nil
	}}, nil
}

// withoutHidden takes the elements out of the lists of a message, at all depths, that name a hidden topic.
func (e *Engine) withoutHidden(v reflect.Value) {
	for _, field := range v.Fields() {
		switch {
		case field.Kind() == reflect.Struct:
			e.withoutHidden(field)
		case field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct:
			kept := 0
			for i := range field.Len() {
				element := field.Index(i)
				if e.isHidden(topicOf(element)) || e.topics.masked(topicIDOf(element)) {
					continue
				}
				e.withoutHidden(element)
				field.Index(kept).Set(element)
				kept++
			}
			field.SetLen(kept)
		}
	}
}

// topicOf is the topic that an element of a message names; "" where it names none.
func topicOf(element reflect.Value) string {
	if f := element.FieldByName("Topic"); f.IsValid() && f.Kind() == reflect.String {
		return f.String()
	}
	return ""
}

// topicIDOf is the same by its id.
func topicIDOf(element reflect.Value) (id [16]byte) {
	if f := element.FieldByName("TopicID"); f.IsValid() {
		id, _ = reflect.TypeAssert[[16]byte](f)
	}
	return id
}

// passOffsetFetch takes hidden topics out of all that groups have; who names one is told that there is no offset.
func passOffsetFetch(e *Engine, req *kmsg.OffsetFetchRequest) (passage, error) {
	all := req.Topics == nil
	for i := range req.Groups {
		all = all && req.Groups[i].Topics == nil
	}
	if !all {
		return passage{req: req}, nil
	}
	return passWithoutHidden(e, req)
}

// passDescribeShareGroupOffsets answers of a hidden topic what is answered of one that is not there.
func passDescribeShareGroupOffsets(e *Engine, req *kmsg.DescribeShareGroupOffsetsRequest) (passage, error) {
	named := map[string]bool{}
	for i := range req.Groups {
		for j := range req.Groups[i].Topics {
			named[req.Groups[i].Topics[j].Topic] = true
		}
	}
	return passage{req: req, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.DescribeShareGroupOffsetsResponse)
		for i := range r.Groups {
			g := &r.Groups[i]
			g.Topics = slices.DeleteFunc(g.Topics, func(t kmsg.DescribeShareGroupOffsetsResponseGroupTopic) bool {
				return e.isHidden(t.Topic) && !named[t.Topic]
			})
			for j := range g.Topics {
				if t := &g.Topics[j]; e.isHidden(t.Topic) {
					t.TopicID = [16]byte{}
					for k := range t.Partitions {
						t.Partitions[k] = kmsg.DescribeShareGroupOffsetsResponseGroupTopicPartition{Partition: t.Partitions[k].Partition, StartOffset: -1, Lag: -1}
					}
				}
			}
		}
		return r, nil
	}}, nil
}

func passAsItIs(_ *Engine, req kmsg.Request) (passage, error) { return passage{req: req}, nil }

// discreet is a rule whose answers do not tell what Kafka says to a broker that has no right to its cluster: it prints the whole
// request as it has it, with the addresses at both ends.
func discreet(admit func(*Engine, kmsg.Request) (passage, error)) func(*Engine, kmsg.Request) (passage, error) {
	return func(e *Engine, req kmsg.Request) (passage, error) {
		pass, err := admit(e, req)
		correct := pass.correct
		pass.correct = func(resp kmsg.Response) (kmsg.Response, error) {
			tellNoAddress(reflect.ValueOf(resp).Elem())
			if correct == nil {
				return resp, nil
			}
			return correct(resp)
		}
		return pass, err
	}
}

// tellNoAddress replaces what is said beside CLUSTER_AUTHORIZATION_FAILED in a message, at all depths.
func tellNoAddress(v reflect.Value) {
	code, said := v.FieldByName("ErrorCode"), v.FieldByName("ErrorMessage")
	if code.IsValid() && said.IsValid() && code.Int() == int64(kerr.ClusterAuthorizationFailed.Code) {
		said.Set(reflect.ValueOf(new("Cluster authorization failed.")))
	}
	for _, field := range v.Fields() {
		if field.Kind() == reflect.Slice && field.Type().Elem().Kind() == reflect.Struct {
			for i := range field.Len() {
				tellNoAddress(field.Index(i))
			}
		}
	}
}

// passElectLeaders names every topic in a request that is about all of them: the hidden ones are not. What needs no election
// is left out of its answer.
func passElectLeaders(e *Engine, req *kmsg.ElectLeadersRequest) (passage, error) {
	if req.Topics != nil || e.topics.hidden == nil {
		return passage{req: req}, nil
	}
	out := *req
	out.Topics = []kmsg.ElectLeadersRequestTopic{}
	for _, name := range slices.Sorted(slices.Values(e.topics.all())) {
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic = name
		for i := range e.topics.size(name) {
			t.Partitions = append(t.Partitions, int32(i))
		}
		out.Topics = append(out.Topics, t)
	}
	return passage{req: &out, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.ElectLeadersResponse)
		for i := range r.Topics {
			r.Topics[i].Partitions = slices.DeleteFunc(r.Topics[i].Partitions, func(p kmsg.ElectLeadersResponseTopicPartition) bool {
				return p.ErrorCode == kerr.ElectionNotNeeded.Code
			})
		}
		return r, nil
	}}, nil
}

func passListConfigResources(e *Engine, req *kmsg.ListConfigResourcesRequest) (passage, error) {
	return passage{req: req, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.ListConfigResourcesResponse)
		r.ConfigResources = slices.DeleteFunc(r.ConfigResources, func(c kmsg.ListConfigResourcesResponseConfigResource) bool {
			return c.Type == int8(kmsg.ConfigResourceTypeTopic) && e.isHidden(c.Name)
		})
		return r, nil
	}}, nil
}

// namesMasked tells whether a request names a hidden topic by its id; by their names the front door knows them. Metadata's
// answers are corrected one by one.
func (e *Engine) namesMasked(req kmsg.Request) bool {
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		return slices.ContainsFunc(r.Topics, func(t kmsg.ProduceRequestTopic) bool { return e.topics.masked(t.TopicID) })
	case *kmsg.FetchRequest:
		return slices.ContainsFunc(r.Topics, func(t kmsg.FetchRequestTopic) bool { return e.topics.masked(t.TopicID) })
	case *kmsg.MetadataRequest:
		return false
	}
	return e.anyMasked(reflect.ValueOf(req).Elem())
}

func (e *Engine) anyMasked(v reflect.Value) bool {
	switch {
	case v.Kind() == reflect.Struct:
		for _, field := range v.Fields() {
			if e.anyMasked(field) {
				return true
			}
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			if e.anyMasked(v.Index(i)) {
				return true
			}
		}
	case v.Type() == reflect.TypeFor[[16]byte]():
		id, _ := reflect.TypeAssert[[16]byte](v)
		return e.topics.masked(id)
	}
	return false
}
