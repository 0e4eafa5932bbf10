package engine

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// outline is what a data plane somewhere else told last of all topics. It is not changed.
type outline struct {
	topics []kmsg.MetadataResponseTopic
	names  map[string]int
	ids    map[[16]byte]int
}

func newOutline(topics []kmsg.MetadataResponseTopic) *outline {
	o := &outline{topics: topics, names: make(map[string]int, len(topics)), ids: make(map[[16]byte]int, len(topics))}
	for i := range topics {
		if topics[i].Topic != nil {
			o.names[*topics[i].Topic] = i
		}
		o.ids[topics[i].TopicID] = i
	}
	return o
}

// Recall answers a Metadata as a data plane somewhere else would have when it was last looked at, for while it is away: so does a
// broker of Kafka that is cut off, and leaders are told apart by their epochs. Of a topic that is not known it is not known either
// whether there is one; clients ask for its leader again.
func (e *Engine) Recall(req *kmsg.MetadataRequest) (*kmsg.MetadataResponse, error) {
	pass, err := e.admit(req)
	if err != nil {
		return nil, err
	}
	resp, err := pass.finish(e.remote.recall(req))
	if err != nil {
		return nil, err
	}
	r, _ := resp.(*kmsg.MetadataResponse)
	return r, nil
}

func (p *remotePlane) recall(req *kmsg.MetadataRequest) *kmsg.MetadataResponse {
	resp, seen := kmsg.NewPtrMetadataResponse(), p.seen.Load()
	resp.Version = req.Version
	if req.Topics == nil {
		for i := range seen.topics {
			resp.Topics = append(resp.Topics, seen.copied(i))
		}
		return resp
	}
	for i := range req.Topics {
		asked := &req.Topics[i]
		at, known := seen.ids[asked.TopicID]
		if asked.Topic != nil {
			at, known = seen.names[*asked.Topic]
		}
		if known {
			resp.Topics = append(resp.Topics, seen.copied(at))
			continue
		}
		t := kmsg.NewMetadataResponseTopic()
		t.Topic, t.TopicID, t.ErrorCode = asked.Topic, asked.TopicID, kerr.LeaderNotAvailable.Code
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// copied is a topic whose answer may be changed.
func (o *outline) copied(at int) kmsg.MetadataResponseTopic {
	t := o.topics[at]
	t.Partitions = slices.Clone(t.Partitions)
	for i := range t.Partitions {
		t.Partitions[i].OfflineReplicas = slices.Clip(t.Partitions[i].OfflineReplicas)
	}
	return t
}
