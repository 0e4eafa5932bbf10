package metadata

import (
	"hash/maphash"
	"iter"
	"maps"
)

// shards is how many maps a table is split into. A change copies the maps it touches, so more shards make a change
// cheaper and an empty image larger.
const shards = 256

// table is a map that never changes once it is part of an image: an [edit] of it copies what it touches.
type table[K comparable, V any] struct {
	seed   maphash.Seed
	shards [shards]map[K]V
	len    int
}

func newTable[K comparable, V any]() *table[K, V] { return &table[K, V]{seed: maphash.MakeSeed()} }

func (t *table[K, V]) shard(k K) int { return int(maphash.Comparable(t.seed, k) % shards) }

func (t *table[K, V]) get(k K) (V, bool) {
	v, ok := t.shards[t.shard(k)][k]
	return v, ok
}

func (t *table[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, m := range &t.shards {
			for k, v := range m {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

// edit is a table that is being changed. Owned by one goroutine; the table it began with stays as it was.
type edit[K comparable, V any] struct {
	table[K, V]

	owned [shards]bool // of these maps nobody else knows
}

func newEdit[K comparable, V any](t *table[K, V]) *edit[K, V] { return &edit[K, V]{table: *t} }

func (e *edit[K, V]) own(i int) map[K]V {
	if !e.owned[i] {
		e.owned[i] = true
		if e.shards[i] == nil {
			e.shards[i] = make(map[K]V)
		} else {
			e.shards[i] = maps.Clone(e.shards[i])
		}
	}
	return e.shards[i]
}

func (e *edit[K, V]) set(k K, v V) {
	m := e.own(e.shard(k))
	before := len(m)
	m[k] = v
	e.len += len(m) - before
}

func (e *edit[K, V]) remove(k K) {
	m := e.own(e.shard(k))
	before := len(m)
	delete(m, k)
	e.len += len(m) - before
}

// freeze returns the table as it is now. The edit may go on: it copies again what it touches.
func (e *edit[K, V]) freeze() *table[K, V] {
	t := e.table
	e.owned = [shards]bool{}
	return &t
}
