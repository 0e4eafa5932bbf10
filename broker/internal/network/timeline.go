package network

import (
	"math"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/broker/quota"
)

// Timeline is when a connection came through each of its stages. A stage that it has not reached, or that its listener
// does not have, is the zero time. Moments of the first half hour are exact to a microsecond, later ones to a
// millisecond; their order is kept when the wall clock is set meanwhile.
type Timeline struct {
	// Established is when TCP's handshake ended, as the kernel tells it at accept4(2), to a tick of its clock: 4 ms, or 20 on a busy
	// machine. Until Accepted the socket was in the accept queue. It is the zero time where the kernel did not tell.
	Established time.Time
	// Accepted is when the acceptor took the socket from the kernel, Admitted when it got its slot: what lies between
	// them is Waited.
	Accepted, Admitted time.Time
	// Registered is when a loop made a connection of it; from here on it is listed.
	Registered time.Time
	// HandshakeDone is the end of the TLS handshake.
	HandshakeDone time.Time
	// Authenticated is when SASL succeeded for the first time.
	Authenticated time.Time
	// FirstRequest is when the first request was complete: on a SASL listener the first one after authentication.
	FirstRequest time.Time
	// LastActive is when bytes last moved; Closed is the end.
	LastActive, Closed time.Time
	Waited             quota.Waited
}

// after is a span of time in four bytes, plus one so that 0 is "never": microseconds up to 2³¹ of them, and from there
// on (the top bit) milliseconds, up to 24 days.
type after uint32

const (
	never     after = 0
	inMillis  after = 1 << 31
	mostMicro       = math.MaxInt32 - 1
)

// afterOf rounds d down. What is negative counts as 0, what is too long as the longest.
func afterOf(d time.Duration) after {
	d = max(d, 0)
	if us := d.Microseconds(); us <= mostMicro {
		return after(us) + 1
	}
	return inMillis | after(min(d.Milliseconds(), math.MaxInt32))
}

// duration is what afterOf was told; never is 0.
func (a after) duration() time.Duration {
	switch {
	case a == never:
		return 0
	case a&inMillis != 0:
		return time.Duration(a&^inMillis) * time.Millisecond
	default:
		return time.Duration(a-1) * time.Microsecond
	}
}

func load(a *after) after { return after(atomic.LoadUint32((*uint32)(a))) }

// stamps are a [Timeline] in little memory. The fields above the gap are set before others see them; those below are
// marked once each, by anyone, with atomic operations.
type stamps struct {
	wall     int64 // Unix nanoseconds of the moment at which the socket was accepted
	accepted int64 // the same on the server's clock
	queued   after // backwards: how long before that it was established
	admitted after
	rate     after // of quota.Waited, as the next two
	slot     after
	limit    quota.Limit

	registered, handshaken, authenticated, first after
}

// accept begins a timeline at the moment now of the server's clock.
func (s *stamps) accept(now int64) { s.wall, s.accepted = time.Now().UnixNano(), now }

// established notes for how long the kernel had the socket before it was
// accepted. The kernel starts the clock of what a server sends last when the
// handshake ends (net/ipv4/tcp_input.c, tcp_rcv_state_process), and before the
// first byte nothing has moved it.
func (s *stamps) established(fd int) {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err == nil {
		s.queued = afterOf(time.Duration(info.Last_data_sent) * time.Millisecond)
	}
}

// admit notes that the slot was got at the moment now.
func (s *stamps) admit(now int64) { s.admitted = afterOf(time.Duration(now - s.accepted)) }

func (s *stamps) setWaited(w quota.Waited) {
	s.rate, s.slot, s.limit = afterOf(w.Rate), afterOf(w.Slot), w.Limit
}

// mark notes that the moment now is that of a stage, unless that was passed before.
func (s *stamps) mark(stage *after, now int64) {
	if load(stage) == never {
		atomic.CompareAndSwapUint32((*uint32)(stage), uint32(never), uint32(afterOf(time.Duration(now-s.accepted))))
	}
}

// copy is s as it is now, with no marks to come.
func (s *stamps) copy() stamps {
	return stamps{
		wall: s.wall, accepted: s.accepted, queued: s.queued, admitted: s.admitted, rate: s.rate, slot: s.slot, limit: s.limit,
		registered: load(&s.registered), handshaken: load(&s.handshaken), authenticated: load(&s.authenticated), first: load(&s.first),
	}
}

func (s *stamps) waited() quota.Waited {
	return quota.Waited{Rate: s.rate.duration(), Slot: s.slot.duration(), Limit: s.limit}
}

// time is the wall clock's time of a moment on the server's clock.
func (s *stamps) time(moment int64) time.Time { return time.Unix(0, s.wall+moment-s.accepted) }

// since is when the slot was got; without one, when the socket was accepted.
func (s *stamps) since() time.Time { return time.Unix(0, s.wall).Add(s.admitted.duration()) }

// timeline unpacks all but LastActive and Closed.
func (s *stamps) timeline() Timeline {
	at := func(a after) time.Time {
		if a == never {
			return time.Time{}
		}
		return time.Unix(0, s.wall).Add(a.duration())
	}
	var established time.Time
	if s.queued != never {
		established = time.Unix(0, s.wall).Add(-s.queued.duration())
	}
	return Timeline{
		Established: established, Accepted: time.Unix(0, s.wall), Admitted: at(s.admitted), Waited: s.waited(),
		Registered:    at(load(&s.registered)),
		HandshakeDone: at(load(&s.handshaken)),
		Authenticated: at(load(&s.authenticated)),
		FirstRequest:  at(load(&s.first)),
	}
}

// Waited is how long its socket waited for a slot, and for which limit.
func (c *Conn) Waited() quota.Waited { return c.stamps.waited() }

// Timeline is what has become of the connection so far.
func (c *Conn) Timeline() Timeline {
	t := c.stamps.timeline()
	t.LastActive = c.LastActive()
	return t
}

// Timeline is what became of the connection. A socket that was refused was accepted, and that is all; one that a rate
// held for a while ends after that while.
func (c *Closed) Timeline() Timeline {
	t := c.stamps.timeline()
	t.Closed = c.At
	if c.lastActive != 0 {
		t.LastActive = c.stamps.time(c.lastActive)
	}
	return t
}
