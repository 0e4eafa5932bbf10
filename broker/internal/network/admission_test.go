package network

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"

	"github.com/brokerlab/brokerlab/broker/quota"
)

// busyLoop serves with one loop that is stuck in a handler until free is called, its queue being full
// and the acceptor holding one socket.
func busyLoop(t *testing.T) (s *serving, free func()) {
	t.Helper()
	stuck := make(chan struct{})
	s = serve(t, &echo{onFrame: func(c *Conn, frame []byte) {
		<-stuck
		c.Reply(framed(frame))
	}}, Listener{Threads: 1, Backlog: 100}, limited(quota.Default()))
	free = sync.OnceFunc(func() { close(stuck) })
	t.Cleanup(free) // before the server's shutdown
	send(t, s.dial(t), framed([]byte("holds the loop")))
	eventually(t, func() bool { return s.counts().BytesIn > 0 }, "the loop to be busy")
	for range newConnections + 1 {
		s.dial(t)
	}
	eventually(t, func() bool { n := s.counts(); return n.Held == 1 && n.Queued == newConnections+1 }, "the queue to be full")
	return s, free
}

func (s *serving) blocked() uint64 { return s.limits.State().Listeners[0].Blocked.Count }

// Rule 55 of Kafka's own tests.
func TestTheTimeInWhichAllQueuesAreFullIsBlockedTime(t *testing.T) {
	s, free := busyLoop(t)
	if n := s.blocked(); n != 0 {
		t.Errorf("blocked for %d ns before the wait has ended, want 0", n)
	}
	free()
	s.wantEstablished(t, newConnections+2)
	eventually(t, func() bool { return s.blocked() > 0 }, "the wait to be counted")
}

// Rule 26.
func TestAnAcceptorThatIsBlockedByAFullQueueStops(t *testing.T) {
	s, free := busyLoop(t)
	shut := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		shut <- s.Shutdown(ctx)
	}()
	eventually(t, func() bool { return s.counts().Closed[ReasonShutdown] > 0 }, "the acceptor to give up its socket while the loop is stuck")
	free()
	if err := <-shut; err != nil {
		t.Errorf("Shutdown() = %v", err)
	}
}

// Rule 57: they look connected to clients before anybody accepts.
func TestAsManyAsTheBacklogAreConnectedBeforeTheServerStarts(t *testing.T) {
	s := New(Options{Handler: &echo{}})
	const backlog = 20
	addr, err := s.Listen(Listener{Name: "PLAINTEXT", Host: "127.0.0.1", Backlog: backlog})
	if err != nil {
		t.Fatal(err)
	}
	early := &serving{Server: s, addr: addr}
	var conns []net.Conn
	for range backlog {
		conn := early.dial(t)
		send(t, conn, framed([]byte("early")))
		conns = append(conns, conn)
	}
	s.Start()
	for _, conn := range conns {
		wantFrame(t, conn, []byte("early"))
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// Rules 40 and 51: a socket that cannot be registered is counted until it is closed, and the loop goes on.
func TestASocketThatCannotBeRegisteredGivesItsSlotBack(t *testing.T) {
	options := Options{Handler: &echo{}}
	limited(quota.Default())(&options)
	server := New(options)
	addr, err := server.Listen(Listener{Name: "PLAINTEXT", Host: "127.0.0.1", Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	(*(*server.excessive.Load())[0].loops.Load())[0].epollFD = -1 // nothing but registration is by this field, once the loop waits
	server.Start()
	s := &serving{Server: server, addr: addr, limits: options.Limits}
	for range 3 {
		wantEnd(t, s.dial(t), "")
		roundTrip(t, s.dial(t), []byte("the other loop, whose turn it is"))
	}
	s.wantClosed(t, ReasonRefusedFull, 3)
	s.wantSlots(t, 3, 0)
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	s.wantSlots(t, 0, 0)
}

// While the acceptor waits for a slot and others wait behind it.
func TestAListenerMayGoWhileItIsFullAndComeBackWithAnotherProtocol(t *testing.T) {
	keys := newPKI(t)
	c := quota.Default()
	c.Listeners = map[string]quota.ListenerConfig{"X": {MaxConnections: 2, CreationRate: quota.Unlimited}}
	s := serve(t, &echo{}, Listener{}, limited(c))
	plain, secure := Listener{Name: "X", Host: "127.0.0.1"}, keys.tlsListener()
	secure.Name, secure.Host = "X", "127.0.0.1"
	var finishes []func()
	slots, ssl := 0, 0
	for round, l := range []Listener{plain, secure, plain, secure} {
		x := s.more(t, l)
		for range 2 {
			if l.Protocol.TLS() {
				roundTrip(t, x.dialTLS(t, keys.clientConfig()), []byte("in"))
				ssl++
			} else {
				roundTrip(t, x.dial(t), []byte("in"))
			}
			slots++
		}
		held, queued := x.dial(t), x.dial(t)
		eventually(t, func() bool { return s.Counts()[1].Held == 1 }, "the acceptor to hold one in round %d", round)
		s.wantSlots(t, slots, ssl) // those of earlier rounds live on
		finish, err := s.Remove("X")
		if err != nil {
			t.Fatal(err)
		}
		finishes = append(finishes, finish)
		wantEnd(t, held, "")
		wantEnd(t, queued, "")
		s.wantSlots(t, slots, ssl)
	}
	for i, finish := range slices.Backward(finishes) {
		finish()
		slots -= 2
		if i%2 == 1 {
			ssl -= 2
		}
		s.wantSlots(t, slots, ssl)
	}
}

// The one that frees a slot may be of any kind.
func TestASlotThatIsGivenBackAdmitsTheWaitingOne(t *testing.T) {
	c := quota.Default()
	c.MaxConnections = 2
	s := serve(t, &echo{}, Listener{}, limited(c))
	first, second := s.dial(t), s.dial(t)
	roundTrip(t, first, []byte("in"))
	roundTrip(t, second, []byte("in"))
	waiting := make([]net.Conn, 3)
	for i := range waiting {
		waiting[i] = s.dial(t)
		send(t, waiting[i], framed([]byte("early")))
	}
	_ = waiting[0].Close() // it gave up, and gets the next slot all the same
	_ = first.Close()
	wantFrame(t, waiting[1], []byte("early"))
	_ = second.SetLinger(0)
	_ = second.Close()
	wantFrame(t, waiting[2], []byte("early"))
}
