package network

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/broker/quota"
)

// connect dials from an address of this machine; nil when it does not succeed, which in a storm is no
// error.
func (s *serving) connect(from string) *net.TCPConn {
	conn, err := net.DialTCP("tcp", &net.TCPAddr{IP: net.ParseIP(from)}, net.TCPAddrFromAddrPort(s.addr))
	if err != nil {
		return nil
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn
}

func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

// Case P2 of the field reports, KAFKA-3689: nothing is given back twice, or not at all.
func TestSlotsAreExactAfterAThousandConnectionsThatAreReset(t *testing.T) {
	keys := newPKI(t)
	hello := clientHello(t, keys.clientConfig())
	c := quota.Default()
	c.MaxConnections, c.MaxSSLConnections, c.MaxPerIP = 50, 30, 40
	s := serve(t, &echo{}, keys.tlsListener(), limited(c))
	stays := s.dialTLS(t, keys.clientConfig())
	roundTrip(t, stays, []byte("in"))
	const cycles, clients = 1000, 20
	var storm, watch sync.WaitGroup
	over, end := context.WithCancel(t.Context())
	watch.Go(func() {
		for over.Err() == nil {
			if n := s.limits.State(); n.Connections < 1 || n.Connections > c.MaxSSLConnections || n.SSL != n.Connections {
				t.Errorf("%d slots are taken, %d of them by TLS, with %d in all", n.Connections, n.SSL, c.MaxSSLConnections)
				return
			}
		}
	})
	for range clients {
		storm.Go(func() {
			for i := range cycles / clients {
				conn := s.connect("127.0.0.1")
				if conn == nil {
					continue
				}
				if i%2 == 0 { // in its handshake
					_, _ = conn.Write(hello)
					_, _ = conn.Read(make([]byte, 100))
				}
				reset(conn)
			}
		})
	}
	storm.Wait()
	end()
	watch.Wait()
	s.wantSlots(t, 1, 1)
	if n := s.limits.IP(netip.MustParseAddr("127.0.0.1")).Connections; n != 1 {
		t.Errorf("the address has %d slots, want 1", n)
	}
	roundTrip(t, stays, []byte("still in"))
	eventually(t, func() bool {
		open, err := establishedOn(s.addr.Port())
		return err == nil && len(open) == 1
	}, "the kernel to have one connection")
}

// Case P3 of the field reports, KAFKA-13457.
func TestConnectionsThatAreResetBeforeTheyAreAcceptedLeaveNothing(t *testing.T) {
	for _, bytes := range []string{"", "\x00\x00\x00\x01x"} {
		c := quota.Default()
		c.MaxConnections = 1
		s := serve(t, &echo{}, Listener{Backlog: 200}, limited(c))
		stays := s.dial(t)
		roundTrip(t, stays, []byte("takes the slot"))
		for range 200 {
			conn := s.connect("127.0.0.1")
			_, _ = conn.Write([]byte(bytes))
			reset(conn)
		}
		last := s.dial(t)
		send(t, last, framed([]byte("waits")))
		_ = stays.Close()
		wantFrame(t, last, []byte("waits"))
		s.wantSlots(t, 1, 0)
		s.wantEstablished(t, 1)
	}
}

// Connects, resets, failed handshakes, refusals, evictions and reconfigurations at once. At the end
// nothing is left: serve looks that slots, sockets, goroutines and all gauges are.
func TestNoSlotIsLeftAfterAStormOfEverything(t *testing.T) {
	keys := newPKI(t)
	hello := clientHello(t, keys.clientConfig())
	c := quota.Default()
	c.MaxConnections = 40
	sameClass := func(c *Conn, _ *tls.ConnectionState) {
		if l := c.Listener(); c.held.TLS() != l.Protocol.TLS() {
			t.Errorf("a connection of %s, which is %v, has a slot with TLS = %t", l.Name, l.Protocol, c.held.TLS())
		}
	}
	s := serve(t, &echo{onOpen: sameClass}, Listener{Threads: 2, IdleTimeout: 500 * time.Millisecond}, limited(c))
	secure := keys.tlsListener()
	secure.Name, secure.Host, secure.Port = "SECURE", "127.0.0.1", freePort(t)
	plain := secure
	plain.Protocol, plain.TLS = Plaintext, nil
	changing := s.more(t, secure)

	over, end := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range 16 {
		from := netip.AddrFrom4([4]byte{127, 0, 0, byte(1 + i%4)}).String()
		clients.Go(func() {
			for over.Err() == nil {
				if rand.IntN(2) == 0 {
					misbehave(s.connect(from), keys, nil)
				} else {
					misbehave(changing.connect(from), keys, hello)
				}
			}
		})
	}
	for round := range 60 {
		limits := quota.Default()
		limits.MaxConnections, limits.MaxSSLConnections = 1+rand.IntN(30), 1+rand.IntN(20)
		limits.MaxPerIP = 1 + rand.IntN(20)
		limits.Listeners = map[string]quota.ListenerConfig{"SECURE": {MaxConnections: 1 + rand.IntN(20), CreationRate: quota.Unlimited}}
		if round%5 == 0 {
			limits.CreationRate = 1000
		}
		s.limits.Configure(limits)
		s.limits.SetIPRates(quota.Unlimited, map[netip.Addr]int{netip.MustParseAddr("127.0.0.3"): 20 * (round % 3)})
		if threads, err := s.Resize("PLAINTEXT", 1+round%4); err == nil {
			threads()
		}
		if round%4 == 3 {
			finish, err := s.Remove("SECURE")
			if err != nil {
				t.Fatal(err)
			}
			s.more(t, []Listener{plain, secure}[round/4%2])
			finish()
		}
		eventually(t, func() bool { return rand.IntN(10) == 0 }, "some time to pass")
	}
	end()
	s.limits.Configure(quota.Default()) // lets in who waits
	clients.Wait()
	s.wantSlots(t, 0, 0)
	s.wantEstablished(t, 0)
}

// misbehave uses a connection in one of many ways.
func misbehave(conn *net.TCPConn, keys *pki, hello []byte) {
	if conn == nil {
		return
	}
	_ = conn.SetDeadline(time.Now().Add(200 * time.Millisecond))
	defer func() { _ = conn.Close() }()
	switch rand.IntN(6) {
	case 0:
		reset(conn)
	case 1:
		_, _ = conn.Write(hello[:len(hello)/2])
	case 2:
		_, _ = conn.Write(hello)
		reset(conn)
	case 3:
		_, _ = conn.Write(framed([]byte("plaintext")))
		_, _ = conn.Read(make([]byte, 100))
	case 4:
		_ = conn.CloseWrite()
		_, _ = conn.Read(make([]byte, 100))
	default:
		if hello == nil {
			return
		}
		secured := tls.Client(conn, keys.clientConfig())
		_, _ = secured.Write(framed([]byte("secured")))
		_, _ = secured.Read(make([]byte, 100))
		_ = secured.Close()
	}
}

// freePort is a port that nobody listens on now.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}
