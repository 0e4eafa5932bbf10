package network

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
)

// chunkSize is the number of connections in one piece of the table.
const chunkSize = 4096

type chunk [chunkSize]atomic.Pointer[Conn]

// table holds every registered connection. It grows by chunks and never moves
// an entry, so that a walk needs no lock and stops no writer: a listing is
// exact entry by entry and may miss or include what opens or closes meanwhile.
// Safe for concurrent use.
type table struct {
	chunks atomic.Pointer[[]*chunk]

	mu         sync.Mutex // guards what follows and the growth of chunks
	free       []int32
	used       int32
	generation uint32
}

// add enters c and sets its slot and generation, which together name it in
// epoll's events: a slot is used again, a generation is not for a long time.
func (t *table) add(c *Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.generation++
	c.generation = t.generation
	if n := len(t.free); n > 0 {
		c.slot, t.free = t.free[n-1], t.free[:n-1]
	} else {
		c.slot = t.used
		t.used++
	}
	chunks := t.load()
	if int(c.slot)/chunkSize == len(chunks) {
		chunks = append(slices.Clone(chunks), new(chunk))
		t.chunks.Store(&chunks)
	}
	chunks[c.slot/chunkSize][c.slot%chunkSize].Store(c)
}

// remove takes c out.
func (t *table) remove(c *Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.load()[c.slot/chunkSize][c.slot%chunkSize].Store(nil)
	t.free = append(t.free, c.slot)
}

// find returns the connection that an epoll event names, or nil when it is gone.
func (t *table) find(slot int32, generation uint32) *Conn {
	chunks := t.load()
	if slot < 0 || int(slot)/chunkSize >= len(chunks) {
		return nil
	}
	c := chunks[slot/chunkSize][slot%chunkSize].Load()
	if c == nil || c.generation != generation {
		return nil
	}
	return c
}

// all walks the table without a lock.
func (t *table) all() iter.Seq[*Conn] {
	return func(yield func(*Conn) bool) {
		for _, chunk := range t.load() {
			for i := range chunk {
				if c := chunk[i].Load(); c != nil && !yield(c) {
					return
				}
			}
		}
	}
}

func (t *table) load() []*chunk {
	if chunks := t.chunks.Load(); chunks != nil {
		return *chunks
	}
	return nil
}
