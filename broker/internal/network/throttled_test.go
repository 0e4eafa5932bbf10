package network

import (
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/broker/quota"
)

// ratesOf gives a server rates of addresses, measured over two windows of this size.
func ratesOf(window time.Duration, byDefault int, overrides map[netip.Addr]int) func(*Options) {
	return func(o *Options) {
		o.Limits = quota.New(quota.Window{Samples: 2, Size: window}, quota.Default())
		o.Limits.SetIPRates(byDefault, overrides)
	}
}

func (s *serving) wantThrottled(t *testing.T, n int64) {
	t.Helper()
	eventually(t, func() bool { return s.counts().Throttled == n }, "%d sockets to be held", n)
}

// dialFrom connects from an address of this machine.
func (s *serving) dialFrom(t *testing.T, from string) *net.TCPConn {
	t.Helper()
	conn, err := net.DialTCP("tcp", &net.TCPAddr{IP: net.ParseIP(from)}, net.TCPAddrFromAddrPort(s.addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Rule 41 of Kafka's own tests.
func TestAnAddressThatConnectsTooFastIsHeldThenClosed(t *testing.T) {
	s := serve(t, &echo{}, Listener{}, ratesOf(time.Second, 5, nil))
	var served []*net.TCPConn
	for s.counts().Refused == 0 {
		served = append(served, s.dial(t))
		n := uint64(len(served))
		eventually(t, func() bool { c := s.counts(); return c.Admitted+c.Refused == n }, "%d connections to be decided on", n)
	}
	held := served[len(served)-1]
	served = served[:len(served)-1]
	if len(served) < 5 {
		t.Errorf("%d connections were served before one was held, want at least the rate", len(served))
	}
	s.wantSlots(t, len(served), 0)
	for _, conn := range served {
		roundTrip(t, conn, []byte("in"))
	}
	wantEnd(t, held, "")
	s.wantClosed(t, ReasonPerIPRate, 1)
	s.wantThrottled(t, 0)
	all, _, _ := s.ClosedConnections(0)
	if line := all[0].Timeline(); !all[0].Refused || all[0].Remote.Port() != portOf(held) || line.Closed.Sub(line.Accepted) <= 0 || !line.Admitted.IsZero() {
		t.Errorf("remembered = %+v, want the held socket", all[0])
	}
	eventually(t, func() bool {
		conn := s.dial(t)
		_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		send(t, conn, framed([]byte("later")))
		_, err := conn.Read(make([]byte, 1))
		_ = conn.Close()
		return err == nil
	}, "a connection to be served again")
}

// Rule 42: though their time is not up.
func TestHeldSocketsGoAtOnceWithTheirListenerAndWithTheServer(t *testing.T) {
	s := serve(t, &echo{}, Listener{}, ratesOf(time.Hour, 0, nil))
	other := s.more(t, Listener{Name: "OTHER"})
	here, there := s.dial(t), other.dial(t)
	eventually(t, func() bool { n := s.Counts(); return n[0].Throttled+n[1].Throttled == 2 }, "two sockets to be held")
	s.wantSlots(t, 0, 0)
	finish, err := s.Remove("OTHER")
	if err != nil {
		t.Fatal(err)
	}
	wantEnd(t, there, "") // before finish, which only connections wait for
	finish()
	s.wantThrottled(t, 1)
	_ = here // held until the shutdown, after which nothing may be left
}

// Kafka closes the one that is due last first, and may hold a short one for as long as others come.
func TestTheHeldSocketThatIsDueFirstIsClosedFirst(t *testing.T) {
	s := serve(t, &echo{}, Listener{})
	l := (*s.excessive.Load())[0]
	ours := make([]int, 4)
	for i, delay := range []time.Duration{3 * time.Hour, 0, 2 * time.Hour, 0} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ours[i] = pair[0]
		t.Cleanup(func() { _ = unix.Close(pair[0]) })
		l.throttled.hold(accepted{fd: pair[1]}, delay)
	}
	closed := func(fd int) bool { n, err := unix.Read(fd, make([]byte, 1)); return n == 0 && err == nil }
	l.throttled.inspect()
	for i, want := range []bool{false, true, false, true} {
		if got := closed(ours[i]); got != want {
			t.Errorf("socket %d closed = %t, want %t", i, got, want)
		}
	}
	l.throttled.closeUntil(l.server.clock.now() + int64(2*time.Hour) + int64(time.Minute))
	if closed(ours[0]) || !closed(ours[2]) {
		t.Error("the one that is due later was closed first")
	}
	l.accepted.Add(4) // as if accepted and refused
	l.refused[ReasonPerIPRate].Add(4)
}

// The acceptor is blocked for as long as it likes.
func TestHeldSocketsAreClosedWhileTheAcceptorWaits(t *testing.T) {
	s := serve(t, &echo{}, Listener{}, ratesOf(200*time.Millisecond, math.MaxInt32, map[netip.Addr]int{netip.MustParseAddr("127.0.0.2"): 0}))
	c := quota.Default()
	c.MaxConnections = 1
	s.limits.Configure(c)
	held := s.dialFrom(t, "127.0.0.2")
	s.wantThrottled(t, 1)
	roundTrip(t, s.dial(t), []byte("takes the slot"))
	s.dial(t) // for which the acceptor waits
	eventually(t, func() bool { return s.counts().Held == 1 }, "the acceptor to hold one")
	wantEnd(t, held, "")
	if n := s.counts(); n.Held != 1 {
		t.Errorf("counts = %+v, want the acceptor to wait still", n)
	}
}

// They take descriptors without being anybody's connections.
func TestHeldSocketsNearTheLimitOfDescriptorsPauseTheAcceptor(t *testing.T) {
	limit := openFiles(t) + 30
	s := serve(t, &echo{}, Listener{}, func(o *Options) { o.MaxFiles = limit }, ratesOf(300*time.Millisecond, 0, nil))
	const clients = 40
	var conns []*net.TCPConn
	for range clients {
		conns = append(conns, s.dial(t))
	}
	eventually(t, func() bool { return s.counts().FilePauses > 0 }, "accepting to pause")
	if n := s.counts(); n.Accepted == clients {
		t.Errorf("accepted all %d below a limit of %d descriptors", n.Accepted, limit)
	}
	for _, conn := range conns {
		wantEnd(t, conn, "")
		_ = conn.Close()
	}
	s.wantClosed(t, ReasonPerIPRate, clients)
	s.limits.SetIPRates(quota.Unlimited, nil)
	roundTrip(t, s.dial(t), []byte("goes on"))
	if n := strings.Count(s.log.String(), "accepting pauses"); n != 1 {
		t.Errorf("%d log lines of the pause, want 1", n)
	}
}
