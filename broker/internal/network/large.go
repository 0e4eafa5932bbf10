package network

import "encoding/binary"

// Large frames are what clients send that write in bulk. Three things make them cheap without believing what a peer claims: they are
// read straight into their own memory; that is as large as the frame will be, once its beginning is there and as long as the server
// has credit; and while one is being answered, the next is read already, so that whoever answers it need not wait for the network.
const (
	// largeFrame is the size, prefix included, from which on a frame is large.
	largeFrame = 64 << 10
	// credible is how much of a large frame must have arrived before it gets credit.
	credible = 16 << 10
	// creditEach is the largest frame that gets credit. The memory of others doubles as their bytes arrive, and they are not read ahead.
	creditEach = 16 << 20
	// creditMost bounds the memory of all frames together that have got credit and are not handed over.
	creditMost = 64 << 20
	// readAtOnce is the most that is read into a large frame before it may be another connection's turn.
	readAtOnce = 256 << 10
)

// wanted is how many bytes the frame has that the input of c begins with, its prefix included; 0 while nobody knows, and for a size
// that will be refused.
func (l *loop) wanted(c *Conn) int {
	data := c.unread()
	if len(data) < sizePrefix {
		return 0
	}
	size := int(int32(binary.BigEndian.Uint32(data)))
	if limit, _ := l.frameLimit(c); size <= 0 || size > limit {
		return 0
	}
	return sizePrefix + size
}

// reserve makes room in the input of c for what is missing of a large frame, as far as there is credit for it, and returns how many
// bytes are missing; 0 where the input has no large frame, or too little of it.
func (l *loop) reserve(c *Conn) (missing int) {
	want, have := l.wanted(c), len(c.unread())
	if want < largeFrame || have < credible || have >= want {
		return 0
	}
	c.compact()
	room := 1
	if l.lend(c, want) {
		room = want - have
	}
	c.in = l.server.buffers.room(c.in, room)
	return want - have
}

// space is where the next bytes of a large frame belong, not past its end; nil where there is none.
func (l *loop) space(c *Conn) []byte {
	missing := l.reserve(c)
	if missing == 0 {
		return nil
	}
	b := c.in.b
	return b[len(b):min(len(b)+min(missing, readAtOnce), cap(b))]
}

// lend tells whether c has credit for a frame of want bytes.
func (l *loop) lend(c *Conn, want int) bool {
	if c.credit > 0 {
		return true
	}
	if want > creditEach {
		return false
	}
	if credit := &l.server.credit; credit.Add(int64(want)) > creditMost {
		credit.Add(-int64(want))
		return false
	}
	c.credit = int64(want)
	return true
}

// repay ends the credit of c.
func (l *loop) repay(c *Conn) {
	l.server.credit.Add(-c.credit)
	c.credit = 0
}

// detach leaves a frame that is handed over its memory for itself, if it is large: what comes next is read elsewhere. c.mu is held.
func (l *loop) detach(c *Conn) {
	if c.ahead = c.frame >= largeFrame; !c.ahead {
		return
	}
	l.repay(c)
	rest := c.unread()[c.frame:]
	c.lent, c.in, c.begin = c.in, nil, 0
	c.receive(rest)
}

// readAhead reads the frame after a large one that has no answer yet. That goes on being read when there is more of it, but is not
// handed over before the answer, after which the loop is posted a task: run is not idle as long as the socket may have more.
func (l *loop) readAhead(c *Conn) {
	for reads := 0; c.ahead && c.phase == phaseOpen && !c.drained && !c.ended && l.readsOn(c); reads++ {
		if reads == readsAtOnce {
			l.post(task{conn: c, kind: taskAhead})
			return
		}
		if reason, err := l.fill(c); reason != ReasonNone {
			l.close(c, reason, err)
			return
		}
	}
}

// readsOn tells whether more of the next frame of c is to be read ahead.
func (l *loop) readsOn(c *Conn) bool {
	want, have := l.wanted(c), len(c.unread())
	switch {
	case have < sizePrefix:
		return true
	case have >= want: // all of it is there, or it will be refused
		return false
	}
	return want < largeFrame || have < credible || l.lend(c, want)
}
