package engine

import "sync"

// topics knows the name of each topic id. It is filled from the data plane at start and follows every CreateTopics and
// DeleteTopics that passes, before its client learns of it; there is no other way for a topic to come or go. The zero
// value is empty; safe for concurrent use.
type topics struct {
	mu    sync.RWMutex
	names map[[16]byte]string
	ids   map[string][16]byte
}

func (t *topics) add(name string, id [16]byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names == nil {
		t.names, t.ids = map[[16]byte]string{}, map[string][16]byte{}
	}
	if old, ok := t.ids[name]; ok {
		delete(t.names, old)
	}
	t.names[id], t.ids[name] = name, id
}

func (t *topics) remove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.names, t.ids[name])
	delete(t.ids, name)
}

func (t *topics) name(id [16]byte) (string, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	name, ok := t.names[id]
	return name, ok
}

func (t *topics) id(name string) ([16]byte, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	id, ok := t.ids[name]
	return id, ok
}
