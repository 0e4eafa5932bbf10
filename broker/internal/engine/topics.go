package engine

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// topics knows the name of each topic id and how many partitions there are. It is filled from the data plane at start and follows every CreateTopics and
// DeleteTopics that passes, before its client learns of it; there is no other way for a topic to come or go. The zero
// value is empty; safe for concurrent use.
type topics struct {
	mu    sync.RWMutex
	names map[[16]byte]string
	ids   map[string][16]byte
	sizes map[string]int // partitions by topic
	total int

	changes uint64 // how often a topic came or went
}

func (t *topics) add(name string, id [16]byte, partitions int) {
	t.mu.Lock()
	defer t.mu.Unlock()
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
