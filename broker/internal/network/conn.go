package network

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/brokerlab/brokerlab/broker/quota"
)

// phase is how far a connection has come. It belongs to its loop.
type phase uint8

const (
	phaseHello     phase = iota // a ClientHello is being collected
	phaseHandshake              // a goroutine runs the handshake
	phaseOpen                   // frames are read
	phaseClosed
)

// What Conn.run can be.
const (
	// runIdle: nothing to do before the socket has an event. Only the loop
	// leaves it.
	runIdle uint32 = iota
	// runBusy: the loop is reading, or a frame awaits its answer.
	runBusy
	// runPending: busy, and there is more to read afterwards.
	runPending
)

// Conn is one connection. Its methods are safe for concurrent use; before the
// handler's Open only those that describe it mean anything.
//
// Who may touch the rest: its loop; but while a frame awaits its answer, frame,
// lent and, unless the frame has its memory for itself, in are guarded by mu.
type Conn struct {
	loop          *loop
	local, remote netip.AddrPort
	cookie        uint64
	fd            int32
	slot          int32
	generation    uint32
	index         int32

	run           atomic.Uint32
	ending        atomic.Uint32 // the Reason it ends for, once that is decided
	phase         phase
	drained       bool // the socket had nothing more to read
	hungUp        bool // an event told that the client has ended its stream, or more
	ended         bool // the end of the stream was read
	opened        bool // the handler knows it
	gone          bool // out of the idle list for good; guarded by the list
	authenticated atomic.Bool

	frames uint32  // how many were handed over
	linger uint32  // the frame whose answer a timer waits for, the client having ended its stream
	frame  int     // size of the one awaiting its answer, prefix included; 0: none
	begin  int     // where the first unread byte of in is
	in     *buffer // bytes read and not consumed; nil: none
	lent   *buffer // the memory of a large frame that awaits its answer
	ahead  bool    // the last frame was large: the next is read before its answer
	credit int64   // of the server's, for the memory of a frame that is not whole

	bytesIn, bytesOut atomic.Int64
	lastActive        atomic.Int64 // a moment of the server's clock
	older, newer      *Conn        // guarded by the idle list
	identity          atomic.Pointer[Identity]
	tlsInfo           atomic.Pointer[TLSInfo]
	session           *session // nil on a plaintext listener
	stamps            stamps
	held              quota.Slot // the zero value without limits

	mu     sync.Mutex
	closed bool    // fd is not ours any more; guarded by mu
	out    *output // nil: nothing to send; guarded by mu
	state  any     // guarded by mu
}

// ID is Kafka's connection id: local and remote address and port, the number of
// the loop, and that of the connection within it.
func (c *Conn) ID() string {
	return connectionID(c.local, c.remote, c.loop.processor, c.index)
}

// AppendID appends the connection's id to dst.
func (c *Conn) AppendID(dst []byte) []byte {
	return appendConnectionID(dst, c.local, c.remote, c.loop.processor, c.index)
}

// Local is the broker's end. An IPv4 address is one also on a dual-stack socket.
func (c *Conn) Local() netip.AddrPort { return c.local }

// Remote is the client's end, in the same form.
func (c *Conn) Remote() netip.AddrPort { return c.remote }

// Listener is where it came in.
func (c *Conn) Listener() *Listener { return &c.loop.listener.Listener }

// Since is when it was admitted.
func (c *Conn) Since() time.Time { return c.stamps.since() }

// LastActive is when bytes last moved, to the precision of one event.
func (c *Conn) LastActive() time.Time {
	return c.stamps.time(c.lastActive.Load())
}

// Cookie is the kernel's cookie of the socket, by which other observers of the
// same kernel know it; 0 where the kernel gave none.
func (c *Conn) Cookie() uint64 { return c.cookie }

// Slot is its place in the table. [Server.Connections] walks in the order of
// slots, so that a listing can be paged; a slot is used again after a close.
func (c *Conn) Slot() int32 { return c.slot }

// BytesIn counts the bytes read off the socket, ciphertext over TLS.
func (c *Conn) BytesIn() int64 { return c.bytesIn.Load() }

// BytesOut counts the bytes that the kernel took, ciphertext over TLS.
func (c *Conn) BytesOut() int64 { return c.bytesOut.Load() }

// Identity is who it belongs to. It is never nil, and must not be changed.
func (c *Conn) Identity() *Identity { return c.identity.Load() }

// SetIdentity replaces the identity.
func (c *Conn) SetIdentity(identity *Identity) { c.identity.Store(identity) }

// TLS is what is known of the handshake; nil before its end and without one.
func (c *Conn) TLS() *TLSInfo { return c.tlsInfo.Load() }

// State is the handler's own value.
func (c *Conn) State() any {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// SetState sets the handler's own value.
func (c *Conn) SetState(state any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = state
}

// SetAuthenticated says whether the client of a SASL listener has authenticated:
// until then its frames are limited to MaxAuthFrame. Called before the answer to
// a frame, it holds for the next one.
func (c *Conn) SetAuthenticated(yes bool) {
	c.authenticated.Store(yes)
	if yes && c.loop.listener.Protocol.SASL() {
		c.stamps.mark(&c.stamps.authenticated, c.loop.server.clock.now())
	}
}

// Reply answers the frame with a whole response, its size prefix included. The
// memory passes to the connection. It returns before a slow client has taken
// the response, and the next frame is read when it has. Where no frame awaits
// an answer (the connection closed meanwhile) it does nothing.
func (c *Conn) Reply(frame []byte) { c.answer(frame, len(frame), nil, ReasonNone) }

// ReplyFrom is Reply with memory that is lent: sent takes it back once all has left, and is not called where the
// connection closes before.
func (c *Conn) ReplyFrom(frame []byte, sent func()) { c.answer(frame, len(frame), sent, ReasonNone) }

// NoReply answers the frame with nothing, as a produce with acks=0 wants it.
func (c *Conn) NoReply() { c.answer(nil, 0, nil, ReasonNone) }

// ReplyThenClose answers the frame after delay, then closes for reason once the
// client has taken the response. A nil frame just closes. Nothing is read
// meanwhile.
func (c *Conn) ReplyThenClose(frame []byte, delay time.Duration, reason Reason) {
	if delay <= 0 {
		c.answer(frame, len(frame), nil, reason)
		return
	}
	time.AfterFunc(delay, func() { c.answer(frame, len(frame), nil, reason) })
}

// Close ends the connection soon, from any goroutine and at any time. The first
// reason counts.
func (c *Conn) Close(reason Reason) { c.fail(reason, nil) }

// fail is Close with what went wrong, for the log.
func (c *Conn) fail(reason Reason, err error) {
	if c.ending.CompareAndSwap(uint32(ReasonNone), uint32(reason)) {
		c.loop.post(task{conn: c, kind: taskClose, err: err})
	}
}

// answer consumes the outstanding frame and sends its response, of which the first ready bytes are there; sent, where there is one, takes
// the memory back.
func (c *Conn) answer(frame []byte, ready int, sent func(), then Reason) {
	c.mu.Lock()
	if c.closed || c.frame == 0 {
		c.mu.Unlock()
		return
	}
	c.release()
	// Before the client can know: who was answered later was active later.
	c.loop.idle.touch(c, c.loop.server.clock.now())
	done, err := c.send(frame, ready, sent, then)
	c.mu.Unlock()
	switch {
	case err != nil:
		c.fail(ReasonClientReset, err)
	case done:
		c.answered(then)
	}
}

// answered goes on after a response has left. Nothing of c may be touched
// afterwards.
func (c *Conn) answered(then Reason) {
	switch {
	case then != ReasonNone:
		c.Close(then)
	case !c.run.CompareAndSwap(runBusy, runIdle):
		c.loop.post(task{conn: c, kind: taskResume})
	}
}

// release gives back the memory of the frame that is answered. c.mu is held.
func (c *Conn) release() {
	pool := &c.loop.server.buffers
	if c.lent != nil {
		pool.put(c.lent)
		c.lent = nil
	} else if c.begin += c.frame; c.begin == len(c.in.b) {
		pool.put(c.in)
		c.in, c.begin = nil, 0
	}
	c.frame = 0
}

// receive adds what was read to the input.
func (c *Conn) receive(data []byte) {
	if len(data) == 0 {
		return
	}
	c.compact()
	c.in = c.loop.server.buffers.append(c.in, data)
}

// compact moves what was read and is not consumed to the front of its memory.
func (c *Conn) compact() {
	if c.begin > 0 {
		c.in.b = c.in.b[:copy(c.in.b, c.in.b[c.begin:])]
		c.begin = 0
	}
}

// unread is what was read and is not consumed.
func (c *Conn) unread() []byte {
	if c.in == nil {
		return nil
	}
	return c.in.b[c.begin:]
}
