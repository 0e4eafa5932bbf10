package configpush

import (
	"encoding/binary"
	"net"
	"slices"
	"sync"
)

// event is a request that a client wrote, or the answer that it read.
type event struct {
	connection int
	key        int16
	answer     bool
}

// recorder writes down what a client says and hears, over all of its connections. Safe for concurrent use.
type recorder struct {
	mu     sync.Mutex
	count  int
	events []event
}

// record is conn, written down.
func (r *recorder) record(conn net.Conn) net.Conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	return &recorded{Conn: conn, recorder: r, number: r.count - 1, asked: map[int32]int16{}}
}

// recorded is one connection. Its frames are put together again in each direction.
type recorded struct {
	net.Conn

	recorder   *recorder
	number     int
	asked      map[int32]int16 // keys of requests by correlation id
	out, heard []byte
}

func (c *recorded) Write(b []byte) (int, error) {
	c.recorder.mu.Lock()
	c.out = append(c.out, b...)
	for len(c.out) >= 12 && len(c.out) >= 4+int(binary.BigEndian.Uint32(c.out)) {
		key := int16(binary.BigEndian.Uint16(c.out[4:]))
		c.asked[int32(binary.BigEndian.Uint32(c.out[8:]))] = key
		c.recorder.events = append(c.recorder.events, event{c.number, key, false})
		c.out = c.out[4+int(binary.BigEndian.Uint32(c.out)):]
	}
	c.recorder.mu.Unlock()
	return c.Conn.Write(b)
}

func (c *recorded) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.recorder.mu.Lock()
	defer c.recorder.mu.Unlock()
	c.heard = append(c.heard, b[:n]...)
	for len(c.heard) >= 8 && len(c.heard) >= 4+int(binary.BigEndian.Uint32(c.heard)) {
		key := c.asked[int32(binary.BigEndian.Uint32(c.heard[4:]))]
		c.recorder.events = append(c.recorder.events, event{c.number, key, true})
		c.heard = c.heard[4+int(binary.BigEndian.Uint32(c.heard)):]
	}
	return n, err
}

func (r *recorder) all() []event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// pushes is how many times a client has pushed.
func (r *recorder) pushes() int {
	n := 0
	for _, e := range r.all() {
		if e.key == keyPush && !e.answer {
			n++
		}
	}
	return n
}
