package wire

import (
	"math/bits"
	"sync"
)

// Buffers keeps byte slices for reuse, by size in powers of two from 4 KB up. The zero value is empty; safe for
// concurrent use.
type Buffers struct {
	pools [buffersLargest - buffersSmallest + 1]sync.Pool
}

const (
	buffersSmallest = 12 // 4 KB
	buffersLargest  = 24 // 16 MB; larger ones are not kept
)

// Get returns an empty slice with room for n bytes.
func (b *Buffers) Get(n int) []byte {
	class := max(bits.Len(uint(max(n, 1)-1)), buffersSmallest)
	if class > buffersLargest {
		return make([]byte, 0, n)
	}
	if kept, ok := b.pools[class-buffersSmallest].Get().(*[]byte); ok {
		return (*kept)[:0]
	}
	return make([]byte, 0, 1<<class)
}

// Put takes back what Get gave, or what has grown out of it. Nobody may use it any more.
func (b *Buffers) Put(s []byte) {
	class := bits.Len(uint(cap(s))) - 1 // what it has room for
	if class < buffersSmallest || class > buffersLargest {
		return
	}
	b.pools[class-buffersSmallest].Put(&s)
}
