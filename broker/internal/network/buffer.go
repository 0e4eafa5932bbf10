package network

import (
	"math/bits"
	"sync"
)

// Buffers come in powers of two between these sizes; larger ones are left to
// the garbage collector.
const (
	smallestBuffer = 8  // 256 bytes
	largestBuffer  = 24 // 16 MiB
)

// buffer is memory for bytes in flight. b[:len(b)] is filled.
type buffer struct{ b []byte }

// bufferPool lends buffers, so that a connection holds memory only while bytes
// of it are in flight. Safe for concurrent use.
type bufferPool struct {
	classes [largestBuffer - smallestBuffer + 1]sync.Pool
}

// class is the pool's class whose buffers hold n bytes; past the largest it is
// out of range.
func class(n int) int {
	return max(bits.Len(uint(max(n, 1)-1)), smallestBuffer) - smallestBuffer
}

// get lends an empty buffer with room for n bytes.
func (p *bufferPool) get(n int) *buffer {
	k := class(n)
	if k >= len(p.classes) {
		return &buffer{b: make([]byte, 0, n)}
	}
	if buf, ok := p.classes[k].Get().(*buffer); ok {
		return buf
	}
	return &buffer{b: make([]byte, 0, 1<<(k+smallestBuffer))}
}

// put takes a buffer back; nobody may hold a slice of it any more. A nil one is
// ignored.
func (p *bufferPool) put(buf *buffer) {
	if buf == nil {
		return
	}
	k := class(cap(buf.b))
	if k >= len(p.classes) || cap(buf.b) != 1<<(k+smallestBuffer) {
		return
	}
	buf.b = buf.b[:0]
	p.classes[k].Put(buf)
}

// append adds data to buf, which may be nil, and returns the buffer that holds
// both; buf itself is given back when it was too small. It grows by doubling,
// so that memory follows the bytes that have arrived.
func (p *bufferPool) append(buf *buffer, data []byte) *buffer {
	buf = p.room(buf, len(data))
	buf.b = append(buf.b, data...)
	return buf
}

// room returns a buffer with what buf holds and room for n bytes more.
func (p *bufferPool) room(buf *buffer, n int) *buffer {
	if buf == nil {
		return p.get(n)
	}
	need := len(buf.b) + n
	if need <= cap(buf.b) {
		return buf
	}
	grown := p.get(max(need, 2*len(buf.b)))
	grown.b = append(grown.b, buf.b...)
	p.put(buf)
	return grown
}

// fit returns a buffer that holds data and is not much larger, in exchange for
// buf, of which data may be a part; nil when data is empty.
func (p *bufferPool) fit(buf *buffer, data []byte) *buffer {
	if len(data) == 0 {
		p.put(buf)
		return nil
	}
	if class(cap(buf.b)) == class(len(data)) {
		buf.b = buf.b[:copy(buf.b[:cap(buf.b)], data)]
		return buf
	}
	fitting := p.get(len(data))
	fitting.b = append(fitting.b, data...)
	p.put(buf)
	return fitting
}
