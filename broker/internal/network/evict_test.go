package network

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/brokerlab/brokerlab/broker/quota"
)

// more serves another listener of the same server.
func (s *serving) more(t *testing.T, l Listener) *serving {
	t.Helper()
	l.Host = "127.0.0.1"
	addr, err := s.Listen(l)
	if err != nil {
		t.Fatal(err)
	}
	other := *s
	other.addr = addr
	return &other
}

// endedFor lists the clients' ports of the connections that ended for reason,
// in the order in which they did.
func (s *serving) endedFor(reason Reason) (ports []uint16) {
	all, _, _ := s.ClosedConnections(0)
	for i := range all {
		if all[i].Reason == reason {
			ports = append(ports, all[i].Remote.Port())
		}
	}
	return ports
}

func portOf(conn net.Conn) uint16 {
	return netip.MustParseAddrPort(conn.LocalAddr().String()).Port()
}

func equalPorts(got []uint16, want []net.Conn) bool {
	if len(got) != len(want) {
		return false
	}
	for i, conn := range want {
		if got[i] != portOf(conn) {
			return false
		}
	}
	return true
}

func TestALoweredLimitClosesTheLeastRecentlyActiveUntilItIsMet(t *testing.T) {
	s := serve(t, &echo{}, Listener{Threads: 1}, limited(quota.Default()))
	var conns []net.Conn
	for range 5 {
		conn := s.dial(t)
		roundTrip(t, conn, []byte("opens"))
		conns = append(conns, conn)
	}
	roundTrip(t, conns[0], []byte("is active again"))
	c := quota.Default()
	c.MaxConnections = 3
	s.limits.Configure(c)
	s.wantClosed(t, ReasonEvictedConnections, 2)
	if got := s.endedFor(ReasonEvictedConnections); !equalPorts(got, conns[1:3]) {
		t.Errorf("evicted ports %d, want those of %v", got, conns[1:3])
	}
	wantEnd(t, conns[1], "")
	wantEnd(t, conns[2], "")
	s.wantSlots(t, 3, 0)
	for _, conn := range []net.Conn{conns[0], conns[3], conns[4]} {
		roundTrip(t, conn, []byte("stays"))
	}
	if n := s.counts().Closed[ReasonEvictedConnections]; n != 2 {
		t.Errorf("%d connections were evicted, want 2", n)
	}
}

// Point 4 of KIP-1015's acceptance list.
func TestALoweredLimitOfTLSClosesTLSAlone(t *testing.T) {
	keys := newPKI(t)
	secured := keys.tlsListener()
	secured.Threads = 1
	s := serve(t, &echo{}, secured, limited(quota.Default()))
	plain := s.more(t, Listener{Name: "PLAIN", Threads: 1})
	sasl := keys.tlsListener()
	sasl.Name, sasl.Protocol, sasl.Threads = "SASL", SASLSSL, 1
	login := s.more(t, sasl)

	oldest := plain.dial(t)
	roundTrip(t, oldest, []byte("plaintext"))
	var secure []net.Conn
	for range 2 {
		conn := s.dialTLS(t, keys.clientConfig())
		roundTrip(t, conn, []byte("tls"))
		secure = append(secure, conn)
	}
	last := login.dialTLS(t, keys.clientConfig())
	roundTrip(t, last, []byte("sasl"))
	secure = append(secure, last)
	s.wantSlots(t, 4, 3)

	c := quota.Default()
	c.MaxSSLConnections = 1
	s.limits.Configure(c)
	s.wantSlots(t, 2, 1)
	roundTrip(t, oldest, []byte("stays"))
	evicted := s.endedFor(ReasonEvictedSSLConnections)
	if len(evicted) != 2 {
		t.Errorf("%d connections were evicted, want 2", len(evicted))
	}
	for _, conn := range secure {
		if !slices.Contains(evicted, portOf(conn)) {
			roundTrip(t, conn, []byte("stays"))
		} else if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("an evicted client reads %v, want close_notify", err)
		}
	}
	c.MaxSSLConnections = 10
	s.limits.Configure(c)
	roundTrip(t, s.dialTLS(t, keys.clientConfig()), []byte("there is room again"))
	s.wantSlots(t, 3, 2)
}

// The broker has not read all that the client sent, and owes it an answer.
func TestAnEvictedClientReadsTheEndOfTheStream(t *testing.T) {
	s := serve(t, &echo{onFrame: func(*Conn, []byte) {}}, Listener{Threads: 1}, limited(quota.Default()))
	conn := s.dial(t)
	send(t, conn, framed([]byte("never answered")))
	eventually(t, func() bool { return s.counts().BytesIn > 0 }, "the frame to arrive")
	send(t, conn, framed([]byte("never read")))
	c := quota.Default()
	c.MaxConnections = 0
	s.limits.Configure(c)
	if got, err := io.ReadAll(conn); len(got) != 0 || err != nil {
		t.Errorf("read %q, %v, want the end of the stream", got, err)
	}
	s.wantClosed(t, ReasonEvictedConnections, 1)
}

func TestAConnectionThatEndsAnywayGoesFirst(t *testing.T) {
	s := serve(t, &echo{onFrame: func(c *Conn, frame []byte) {
		if string(frame) != "waits" {
			c.Reply(framed(frame))
		}
	}}, Listener{Threads: 1}, limited(quota.Default()))
	older := s.dial(t)
	roundTrip(t, older, []byte("idle"))
	ending := s.dial(t)
	send(t, ending, framed([]byte("waits")))
	if err := ending.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	s.wantEstablished(t, 2)
	eventually(t, func() bool { return s.counts().BytesIn == 8+9 }, "the frame to arrive")
	c := quota.Default()
	c.MaxConnections = 1
	s.limits.Configure(c)
	wantEnd(t, ending, "")
	s.wantSlots(t, 1, 0)
	roundTrip(t, older, []byte("stays"))
}

// Rule 63 of Kafka's own tests.
func TestAProtectedListenerPushesOthersOut(t *testing.T) {
	c := quota.Default()
	c.MaxConnections, c.InterBroker = 4, "BROKERS"
	s := serve(t, &echo{}, Listener{Threads: 2}, limited(c))
	brokers := s.more(t, Listener{Name: "BROKERS", Threads: 2})
	dial := func(on *serving) *net.TCPConn {
		conn := on.dial(t)
		roundTrip(t, conn, []byte("in"))
		return conn
	}
	clients := []*net.TCPConn{dial(s), dial(s)}
	peers := []*net.TCPConn{dial(brokers), dial(brokers)}
	s.wantSlots(t, 4, 0)
	peers = append(peers, dial(brokers), dial(brokers))
	s.wantSlots(t, 4, 0)
	for _, conn := range clients {
		wantEnd(t, conn, "")
	}
	for _, conn := range peers {
		roundTrip(t, conn, []byte("stays"))
	}
	// What is protected only while there is another listener loses that with it.
	finish, err := s.Remove(s.counts().Listener.Name)
	if err != nil {
		t.Fatal(err)
	}
	finish()
	c.MaxConnections = 1
	s.limits.Configure(c)
	s.wantSlots(t, 1, 0)
}
