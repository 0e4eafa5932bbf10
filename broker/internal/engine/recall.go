package engine

import (
	"math"
	"slices"
	"sync"
	"time"
	"unicode/utf16"

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
// broker of Kafka that is cut off, and leaders are told apart by their epochs. Where only our node is away the others are asked. Of a
// topic that is not known it is not known either whether there is one; clients ask for its leader again.
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
	once := distinct(req.Topics, func(t *kmsg.MetadataRequestTopic) wanted { return wanted{deref(t.Topic), t.TopicID} })
	for i := range once {
		asked := &once[i]
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

// wanted is what a Metadata asks for.
type wanted struct {
	name string
	id   [16]byte
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

// coordinating is the topic by whose partitions Kafka finds coordinators of a kind of FindCoordinator.
func coordinating(kind int8) string {
	switch kind {
	case 0:
		return "__consumer_offsets"
	case 1:
		return "__transaction_state"
	default:
		return "__share_group_state"
	}
}

// RecallCoordinator is the node that looks after a group, transactional id or share partition, as far as that is known while a
// data plane somewhere else is away; -1 where there is none. A node of ours is not known, so it is any, but the same whoever is
// asked.
func (e *Engine) RecallCoordinator(kind int8, key string) int32 {
	seen, hash := e.remote.seen.Load(), int(javaHash(key)&math.MaxInt32)
	at, known := seen.names[coordinating(kind)]
	if !known {
		nodes := e.remote.last.Load().nodes
		if len(nodes) == 0 {
			return -1
		}
		return nodes[hash%len(nodes)]
	}
	partitions := seen.topics[at].Partitions
	for i := range partitions {
		if p := &partitions[i]; int(p.Partition) == hash%len(partitions) {
			return p.Leader
		}
	}
	return -1
}

// javaHash is String.hashCode, by which Kafka assigns keys to those partitions.
func javaHash(s string) int32 {
	h := int32(0)
	for _, unit := range utf16.Encode([]rune(s)) {
		h = 31*h + int32(unit)
	}
	return h
}

// waiter waits for a data plane to come back.
type waiter struct {
	timer *time.Timer
	wake  func()
}

// WhenBack calls then on a goroutine of its own: when a data plane somewhere else is there, but after most at the latest.
func (e *Engine) WhenBack(most time.Duration, then func()) {
	p, w := e.remote, &waiter{}
	w.wake = sync.OnceFunc(func() {
		p.mu.Lock()
		delete(p.waiters, w)
		p.mu.Unlock()
		w.timer.Stop()
		then()
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reach.Load() != nil || p.down {
		go then()
		return
	}
	if p.waiters == nil {
		p.waiters = map[*waiter]struct{}{}
	}
	w.timer = time.AfterFunc(most, w.wake)
	p.waiters[w] = struct{}{}
}

// wakeWaiters has everybody go on who waits.
func (p *remotePlane) wakeWaiters() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for w := range p.waiters {
		go w.wake()
	}
	p.waiters = nil
}
