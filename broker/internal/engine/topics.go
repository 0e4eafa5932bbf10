package engine

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// topics knows the name of each topic id and how many partitions there are. It is filled from the data plane at start and
// follows every CreateTopics and DeleteTopics that passes, before its client learns of it. There is no other way for a
// topic to come or go, unless the data plane is somewhere else: then it follows each answer about topics, too. The zero
// value is empty; safe for concurrent use.
type topics struct {
	hidden func(string) bool // topics that are not there for anybody; nil: none. Not changed

	mu    sync.RWMutex
	masks map[[16]byte]struct{} // the ids of hidden topics
	news  map[string]time.Time  // when topics came that the data plane may not list yet, where it is somewhere else
	names map[[16]byte]string
	ids   map[string][16]byte
	sizes map[string]int // partitions by topic
	total int

	changes uint64 // how often a topic came or went
}

func (t *topics) add(name string, id [16]byte, partitions int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.put(name, id, partitions)
}

// put wants t.mu.
func (t *topics) put(name string, id [16]byte, partitions int) {
	if t.hidden != nil && t.hidden(name) {
		if t.masks == nil {
			t.masks = map[[16]byte]struct{}{}
		}
		t.masks[id] = struct{}{}
		return
	}
	if t.names == nil {
		t.names, t.ids, t.sizes = map[[16]byte]string{}, map[string][16]byte{}, map[string]int{}
	}
	if old, ok := t.ids[name]; ok {
		delete(t.names, old)
	}
	t.names[id], t.ids[name] = name, id
	t.changes++
	t.total += partitions - t.sizes[name]
	t.sizes[name] = partitions
}

// resize follows a topic that got more partitions.
func (t *topics) resize(name string, partitions int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.sizes[name]; ok {
		t.total += partitions - t.sizes[name]
		t.sizes[name] = partitions
	}
}

// room tells whether more partitions may be made where most are allowed; 0 allows any number.
func (t *topics) room(more, most int) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return most == 0 || t.total+more <= most
}

// size tells how many partitions a topic has.
func (t *topics) size(name string) int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.sizes[name]
}

// colliding finds a topic whose name differs in dots and underscores only; "" when there is none.
func (t *topics) colliding(name string) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	plain := strings.ReplaceAll(name, ".", "_")
	for other := range t.ids {
		if other != name && strings.ReplaceAll(other, ".", "_") == plain {
			return other
		}
	}
	return ""
}

func (t *topics) remove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.drop(name)
}

// drop wants t.mu.
func (t *topics) drop(name string) {
	if _, there := t.ids[name]; !there {
		return
	}
	t.total -= t.sizes[name]
	t.changes++
	delete(t.sizes, name)
	delete(t.names, t.ids[name])
	delete(t.ids, name)
}

func (t *topics) name(id [16]byte) (string, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	name, ok := t.names[id]
	return name, ok
}

func (t *topics) all() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Keys(t.ids))
}

func (t *topics) id(name string) ([16]byte, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	id, ok := t.ids[name]
	return id, ok
}

// newsFor is how long a topic stays that was made over one node and that another does not list yet.
const newsFor = 10 * time.Second

// made adds a topic that somebody has made just now.
func (t *topics) made(name string, id [16]byte, partitions int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.news == nil {
		t.news = map[string]time.Time{}
	}
	t.news[name] = time.Now()
	t.put(name, id, partitions)
}

// learn takes in an answer about some topics.
func (t *topics) learn(r *kmsg.MetadataResponse) {
	t.mu.RLock()
	known := true
	for i := range r.Topics {
		known = known && t.knows(&r.Topics[i])
	}
	t.mu.RUnlock()
	if known {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range r.Topics {
		if a := &r.Topics[i]; !t.knows(a) {
			t.put(*a.Topic, a.TopicID, len(a.Partitions))
		}
	}
}

// masked tells whether an id is that of a hidden topic.
func (t *topics) masked(id [16]byte) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	_, yes := t.masks[id]
	return yes
}

// masking tells whether any topic is hidden.
func (t *topics) masking() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.masks) > 0
}

// knows tells whether there is nothing new in an answer about a topic. It wants t.mu.
func (t *topics) knows(a *kmsg.MetadataResponseTopic) bool {
	if a.Topic == nil || a.ErrorCode != 0 || a.TopicID == ([16]byte{}) {
		return true
	}
	if _, masked := t.masks[a.TopicID]; masked {
		return true
	}
	id, there := t.ids[*a.Topic]
	return there && id == a.TopicID && t.sizes[*a.Topic] >= len(a.Partitions)
}

// follow takes in an answer about all topics: what is not in it is gone.
func (t *topics) follow(r *kmsg.MetadataResponse) {
	t.learn(r)
	listed := make(map[string]bool, len(r.Topics))
	for i := range r.Topics {
		if r.Topics[i].Topic != nil {
			listed[*r.Topics[i].Topic] = true
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, since := range t.news {
		if listed[name] || time.Since(since) > newsFor {
			delete(t.news, name)
		}
	}
	for name := range t.ids {
		if _, news := t.news[name]; !listed[name] && !news {
			t.drop(name)
		}
	}
}
