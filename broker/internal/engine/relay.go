package engine

import (
	"encoding/binary"
	"errors"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Relay sends the answer to a Fetch on while it arrives. Its methods are called one after another on a goroutine of the data plane;
// where the data plane closes meanwhile, also after the request was answered with an error.
type Relay interface {
	// Begin offers an answer that has begun to arrive: frame is the memory that it will fill, its length prefix first. Nothing of it may
	// be read yet, but the correlation id, at [CorrelationAt], is Begin's to set. sent is to be called once nobody reads the frame any
	// more. False: the answer is wanted whole.
	Begin(frame []byte, sent func()) bool
	// More says that the first n bytes of the frame may be read: of all but the last ones, which may be once the request is answered.
	More(n int)
	// Splices tells whether Splice may be called, once Begin was.
	Splices() bool
	// Splice sends the next n bytes out of a pipe, for which it waits until then, and returns how many it has sent; no others of the
	// frame come before the rest of them.
	Splice(pipe, n int, until time.Time) int
	// Leads tells whether clients may be led to a node.
	Leads(node int32) bool
}

// CorrelationAt is where a frame has its correlation id.
const CorrelationAt = sizePrefix

const (
	// relayFrom is the size from which an answer is offered to a [Relay]. What is smaller arrives at once.
	relayFrom = 64 << 10
	// relayStep is how much more of it there is to be before somebody is woken up for it.
	relayStep = 64 << 10
	// takenWithin is how long an answer may wait for its client in all, while the far end waits too. Then it is read whole.
	takenWithin = time.Second
	// eraser is a tag that no version of Fetch has, which its readers therefore skip (KIP-482).
	eraser = 0x7f
)

// Versions of Fetch from which on it has something.
const (
	fetchAborted  = 4
	fetchStart    = 5
	fetchSessions = 7
	fetchReplica  = 11
	fetchByID     = 13
)

var errRelayed = errors.New("the answer to a Fetch is malformed")

// relaying reads the answer to a Fetch while it arrives: all of it but the records, which pass by. What clients must not see is changed
// in place: the answer keeps its length, which they are told before anybody knows the rest. So the hint that another node leads becomes
// that there is none, and the addresses beside such hints are erased: clients ask for Metadata then, as they do in versions before 16.
type relaying struct {
	*arriving

	to       Relay
	version  int16
	flexible bool
	at       int   // what is before it was read, or passes by
	told     int   // how much of the frame the relay has, or has sent
	err      error // after which nothing is read

	plain *net.TCPConn // the connection, where bytes may go through a pipe
	pipes *pipes
	pipe  *pipe
	until time.Time // when the client should have taken what came through it
}

// relay offers an answer to the relay of its request and reads it. A nil answer without an error was not wanted that way, and nothing of
// it has changed. What is returned has no records.
func (l *tcpLink) relay(f *flight, corr int32, a *arriving) (*kmsg.FetchResponse, error) {
	fetch, ok := f.req.(*kmsg.FetchRequest)
	to := f.from.relay
	if !ok || to == nil || fetch.Version < fetchAborted || a.size < relayFrom || len(a.frame) < a.size {
		return nil, nil
	}
	r := &relaying{arriving: a, to: to, version: fetch.Version, flexible: fetch.IsFlexible(), at: CorrelationAt, pipes: &l.plane.pipes}
	if r.int32() != corr || !to.Begin(a.frame, func() { l.plane.bodies.Put(a.frame) }) {
		return nil, r.err
	}
	if to.Splices() {
		r.plain, _ = a.conn.conn.(*net.TCPConn)
	}
	answer := r.answer()
	switch {
	case r.pipe == nil:
	case r.err == nil:
		r.pipes.put(r.pipe)
	default: // it may hold what is this client's
		r.pipe.close()
	}
	if r.err == nil && r.at != a.size {
		r.err = errRelayed
	}
	return answer, r.err
}

func (r *relaying) answer() *kmsg.FetchResponse {
	answer := kmsg.NewPtrFetchResponse()
	answer.Version = r.version
	r.tags(nil)
	answer.ThrottleMillis = r.int32()
	if r.version >= fetchSessions {
		answer.ErrorCode = r.int16()
		r.int32()
		r.put(0) // see admitFetch
	}
	for range r.count() {
		if r.err != nil {
			return nil
		}
		answer.Topics = append(answer.Topics, r.topic())
	}
	const addresses = 0
	r.tags(func(tag uint32, tagAt int, value []byte) {
		if tag == addresses {
			r.frame[tagAt] = eraser
			clear(value)
		}
	})
	return answer
}

func (r *relaying) topic() kmsg.FetchResponseTopic {
	const id = 16
	topic := kmsg.NewFetchResponseTopic()
	switch {
	case r.version >= fetchByID:
		r.take(id)
	case r.flexible:
		r.take(r.length())
	default:
		r.take(int(r.int16()))
	}
	for range r.count() {
		if r.err != nil {
			break
		}
		topic.Partitions = append(topic.Partitions, r.partition())
	}
	r.tags(nil)
	return topic
}

func (r *relaying) partition() kmsg.FetchResponseTopicPartition {
	partition := kmsg.NewFetchResponseTopicPartition()
	partition.Partition = r.int32()
	partition.ErrorCode = r.int16()
	const offset, aborted = 8, 2 * 8
	r.take(2 * offset) // the high watermark and the last stable one
	if r.version >= fetchStart {
		r.take(offset)
	}
	for range r.count() {
		if r.err != nil {
			break
		}
		r.take(aborted)
		r.tags(nil)
	}
	if r.version >= fetchReplica {
		if node := r.int32(); node >= 0 && !r.to.Leads(node) {
			r.put(-1)
		}
	}
	r.pass(r.length())
	const leader, leaderSize = 1, 4 + 4
	r.tags(func(tag uint32, _ int, value []byte) {
		switch {
		case tag != leader:
		case len(value) < leaderSize:
			r.err = errRelayed
		default:
			binary.BigEndian.PutUint64(value, 1<<64-1) // -1 and -1
		}
	})
	return partition
}

// pass lets the next n bytes pass by.
func (r *relaying) pass(n int) {
	if n > r.size-r.at {
		r.err = errRelayed
	}
	if n <= 0 || r.err != nil {
		return
	}
	r.at += n
	for r.plain != nil && r.passing()-r.have >= spliceFrom && r.err == nil {
		r.splice()
	}
	for r.err == nil {
		r.tell(relayStep)
		if r.have >= r.at {
			return
		}
		r.err = r.more(r.piece())
	}
}

// passing is the end of what may pass by unread. The frame's last byte, which in old versions is one of records, does not: with it the
// client has its answer, and asks anew.
func (r *relaying) passing() int { return min(r.at, r.size-1) }

// tell says how much may be read if that is at least so much more than before.
func (r *relaying) tell(step int) {
	if ready := min(r.at, r.have); ready-r.told >= step && ready < r.size {
		r.told = ready
		r.to.More(ready)
	}
}

// splice lets some bytes pass by inside the kernel. They have their place in the frame all the same, which they fill when the client does
// not take them.
func (r *relaying) splice() {
	if r.conn.read.Buffered() > 0 {
		r.err = r.more(r.conn.read.Buffered())
		return
	}
	if r.pipe == nil {
		if r.pipe = r.pipes.get(); r.pipe == nil {
			r.plain = nil
			return
		}
		r.until = time.Now().Add(takenWithin)
	}
	r.tell(1)
	r.conn.wakeAt(min(r.size-r.have, pipeSize))
	n, err := r.pipe.fill(r.plain, min(r.passing()-r.have, pipeSize))
	if r.err = err; err != nil {
		return
	}
	sent := r.to.Splice(r.pipe.out, n, r.until)
	if sent < n {
		r.plain = nil
		r.err = r.pipe.read(r.frame[r.have+sent : r.have+n])
	}
	r.told += sent
	r.has(n)
}

// take reads the next n bytes, for which it waits; nil after an error.
func (r *relaying) take(n int) []byte {
	if r.err == nil && (n < 0 || n > r.size-r.at) {
		r.err = errRelayed
	}
	for r.err == nil && r.have < r.at+n {
		piece := r.piece()
		if r.plain != nil {
			piece = readBuffer // the rest need not be read
		}
		r.err = r.more(piece)
	}
	if r.err != nil {
		return nil
	}
	r.at += n
	return r.frame[r.at-n : r.at]
}

// put replaces the 32 bits that were read last.
func (r *relaying) put(n int32) {
	if r.err == nil {
		binary.BigEndian.PutUint32(r.frame[r.at-4:], uint32(n))
	}
}

func (r *relaying) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *relaying) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// uvarint reads a number of 32 bits, of which no byte more is read.
func (r *relaying) uvarint() uint32 {
	var b [binary.MaxVarintLen32]byte
	for i := range b {
		next := r.take(1)
		if next == nil {
			return 0
		}
		if b[i] = next[0]; b[i] < 1<<7 {
			n, _ := binary.Uvarint(b[:i+1])
			return uint32(n)
		}
	}
	r.err = errRelayed
	return 0
}

// length reads that of bytes, or of a list; -1 is of none.
func (r *relaying) length() int {
	if r.flexible {
		return int(r.uvarint()) - 1
	}
	return int(r.int32())
}

// count is how many elements a list has.
func (r *relaying) count() int { return max(r.length(), 0) }

// tags reads the tagged fields of a flexible version. each is told where the tag of one is, which has one byte, and its value.
func (r *relaying) tags(each func(tag uint32, at int, value []byte)) {
	if !r.flexible {
		return
	}
	for range r.uvarint() {
		at := r.at
		tag := r.uvarint()
		if tag < 1<<7 && r.at != at+1 {
			r.err = errRelayed
		}
		value := r.take(int(r.uvarint()))
		if r.err != nil {
			return
		}
		if each != nil {
			each(tag, at, value)
		}
	}
}
