package network

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestAConnectionKnowsWhereItComesFrom(t *testing.T) {
	handler := &echo{}
	s := serve(t, handler, Listener{Protocol: Plaintext, Threads: 2})
	begin := time.Now()
	for i := range 4 {
		conn := s.dial(t)
		roundTrip(t, conn, []byte("hello"))
		local := conn.LocalAddr().(*net.TCPAddr).AddrPort()
		id := fmt.Sprintf("127.0.0.1:%d-127.0.0.1:%d-%d-%d", s.addr.Port(), local.Port(), i%2, i/2)
		c := s.Connection(id)
		if c == nil {
			t.Fatalf("Connection(%q) = nil", id)
		}
		if c.ID() != id || c.Remote() != local || c.Local() != s.addr {
			t.Errorf("connection %v %v %v, want %v %v %v", c.ID(), c.Remote(), c.Local(), id, local, s.addr)
		}
		if since := c.Since(); since.Before(begin.Add(-time.Millisecond)) || since.After(time.Now()) {
			t.Errorf("Since() = %v, want between %v and now", since, begin)
		}
		if last := c.LastActive(); last.Before(c.Since().Add(-time.Millisecond)) || last.After(time.Now()) {
			t.Errorf("LastActive() = %v, want between Since() and now", last)
		}
		// The client may have its answer before the loop has counted it.
		eventually(t, func() bool { return c.BytesIn() == 9 && c.BytesOut() == 9 }, "9 bytes each way")
		if c.Identity() == nil || c.TLS() != nil || c.Listener().Name != "PLAINTEXT" {
			t.Errorf("identity %v, TLS %v, listener %v", c.Identity(), c.TLS(), c.Listener())
		}
	}
	for _, id := range []string{"", "a-b", "127.0.0.1:1-127.0.0.1:2-0-0", "x-y-0-0", "1-2-3-4-5"} {
		if c := s.Connection(id); c != nil {
			t.Errorf("Connection(%q) = %v, want nil", id, c.ID())
		}
	}
}

func TestDualStackTakesBothFamiliesAndShowsIPv4AsIPv4(t *testing.T) {
	s := serve(t, &echo{}, Listener{Protocol: Plaintext, Host: "*"})
	for network, host := range map[string]string{"tcp4": "127.0.0.1", "tcp6": "::1"} {
		conn, err := net.Dial(network, net.JoinHostPort(host, strconv.Itoa(int(s.addr.Port()))))
		if err != nil {
			t.Skipf("dial %s: %v", host, err)
		}
		roundTrip(t, conn, []byte("x"))
		want := conn.LocalAddr().(*net.TCPAddr).AddrPort()
		want = netip.AddrPortFrom(want.Addr().Unmap(), want.Port())
		found := false
		for c := range s.Connections() {
			found = found || c.Remote() == want && c.Local().Addr() == netip.MustParseAddr(host)
		}
		if !found {
			t.Errorf("no connection from %v to %v is listed", want, host)
		}
		_ = conn.Close()
		s.wantEstablished(t, 0)
	}
}

func TestIPv4WildcardAndIPv6AddressKeepToTheirFamily(t *testing.T) {
	for host, other := range map[string]string{"0.0.0.0": "::1", "::1": "127.0.0.1"} {
		s := serve(t, &echo{}, Listener{Protocol: Plaintext, Host: host})
		if conn, err := net.Dial("tcp", net.JoinHostPort(other, strconv.Itoa(int(s.addr.Port())))); err == nil {
			_ = conn.Close()
			t.Errorf("a listener on %s is reached at %s", host, other)
		}
	}
}

func TestLoopsAreNumberedThroughAllListeners(t *testing.T) {
	s := New(Options{Handler: &echo{}})
	var last netip.AddrPort
	for _, name := range []string{"A", "B"} {
		var err error
		if last, err = s.Listen(Listener{Name: name, Host: "127.0.0.1", Threads: 2}); err != nil {
			t.Fatal(err)
		}
	}
	s.Start()
	defer func() { _ = s.Shutdown(t.Context()) }()
	for _, want := range []string{"-2-0", "-3-0", "-2-1"} {
		conn, err := net.Dial("tcp", last.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		roundTrip(t, conn, []byte("x"))
		found := false
		for c := range s.Connections() {
			found = found || strings.HasSuffix(c.ID(), want)
		}
		if !found {
			t.Errorf("no connection ends in %q", want)
		}
	}
}

func TestMutualTLSKeepsTheClientsNameAndDropsItsCertificate(t *testing.T) {
	keys := newPKI(t)
	var subject atomic.Value
	handler := &echo{onOpen: func(_ *Conn, state *tls.ConnectionState) {
		subject.Store(state.PeerCertificates[0].Subject.CommonName)
	}}
	l := keys.tlsListener(func(c *tls.Config) { c.ClientAuth = tls.RequireAndVerifyClientCert })
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			s := serve(t, handler, l)
			config := keys.clientConfig()
			config.MaxVersion = version
			config.Certificates = []tls.Certificate{keys.client}
			roundTrip(t, s.dialTLS(t, config), []byte("x"))
			if got := subject.Load(); got != "alice" {
				t.Errorf("handler saw %v, want alice", got)
			}
			c := s.only()
			info := c.TLS()
			if info.Subject != `CN=alice,O=Acme\, Inc.` || info.Serial != "4711" || info.NotAfter.Before(time.Now()) {
				t.Errorf("TLS() = %+v, want alice's certificate", info)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			if certs := c.session.tls.ConnectionState().PeerCertificates; certs != nil {
				t.Errorf("the connection keeps %d certificates", len(certs))
			}
		})
	}
	t.Run("without a certificate", func(t *testing.T) {
		s := serve(t, &echo{}, l)
		conn := tls.Client(s.dial(t), keys.clientConfig())
		if _, err := conn.Write(framed([]byte("x"))); err == nil {
			_, err = conn.Read(make([]byte, 1))
			if err == nil || !strings.Contains(err.Error(), "certificate required") {
				t.Errorf("client read %v, want the alert", err)
			}
		}
		s.wantClosed(t, ReasonTLSFailed, 1)
		if got := s.counts().HandshakeFailures; got != 1 {
			t.Errorf("handshake failures = %d, want 1", got)
		}
	})
	t.Run("with one of another authority", func(t *testing.T) {
		s := serve(t, &echo{}, l)
		config := keys.clientConfig()
		config.Certificates = []tls.Certificate{newPKI(t).client}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &config.Certificates[0], nil
		}
		conn := tls.Client(s.dial(t), config)
		_, _ = conn.Write(framed([]byte("x")))
		_, _ = io.ReadAll(conn)
		s.wantClosed(t, ReasonTLSFailed, 1)
	})
}

func TestResumedSessionsWork(t *testing.T) {
	keys := newPKI(t)
	s := serve(t, &echo{}, keys.tlsListener())
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		config := keys.clientConfig()
		config.MaxVersion = version
		config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		for i := range 3 {
			conn := s.dialTLS(t, config)
			roundTrip(t, conn, []byte("x"))
			if got := conn.ConnectionState().DidResume; got != (i > 0) {
				t.Errorf("%s connection %d resumed = %t", tls.VersionName(version), i, got)
			}
			_ = conn.Close()
		}
	}
}

func TestReplyThenCloseWaitsAndReadsNothingMeanwhile(t *testing.T) {
	const delay = 100 * time.Millisecond
	var frames atomic.Int64
	handler := &echo{onFrame: func(c *Conn, frame []byte) {
		if string(frame) == "acks=0" {
			c.ReplyThenClose(nil, 0, ReasonAcksZeroFailed)
			return
		}
		frames.Add(1)
		c.ReplyThenClose(framed([]byte("refused")), delay, ReasonAuthenticationFailed)
	}}
	s := serve(t, handler, Listener{Protocol: SASLPlaintext})
	conn := s.dial(t)
	begin := time.Now()
	send(t, conn, append(framed([]byte("one")), framed([]byte("two"))...))
	wantFrame(t, conn, []byte("refused"))
	if took := time.Since(begin); took < delay {
		t.Errorf("answered after %v, want %v", took, delay)
	}
	wantEnd(t, conn, "")
	s.wantClosed(t, ReasonAuthenticationFailed, 1)
	if got := frames.Load(); got != 1 {
		t.Errorf("%d frames were handed over, want 1", got)
	}

	conn = s.dial(t)
	send(t, conn, framed([]byte("acks=0")))
	wantEnd(t, conn, "")
	s.wantClosed(t, ReasonAcksZeroFailed, 1)
}

func TestNoReplyGoesOnToTheNextFrame(t *testing.T) {
	s := serve(t, &echo{onFrame: func(c *Conn, frame []byte) {
		if frame[0] == 'q' {
			c.NoReply()
			return
		}
		c.Reply(framed(frame))
	}}, Listener{Protocol: Plaintext})
	conn := s.dial(t)
	send(t, conn, append(framed([]byte("quiet")), framed([]byte("loud"))...))
	wantFrame(t, conn, []byte("loud"))
}

func TestAnswersAfterTheEndAndSecondAnswersDoNothing(t *testing.T) {
	taken := make(chan *Conn, 1)
	s := serve(t, &echo{onFrame: func(c *Conn, frame []byte) {
		if string(frame) == "twice" {
			c.Reply(framed(frame))
			c.Reply(framed([]byte("once too often")))
			return
		}
		taken <- c
	}}, Listener{Protocol: Plaintext})
	conn := s.dial(t)
	send(t, conn, framed([]byte("twice")))
	wantFrame(t, conn, []byte("twice"))
	send(t, conn, framed([]byte("killed")))
	c := <-taken
	c.Close(ReasonKilled)
	c.Close(ReasonIdle)
	wantEnd(t, conn, "")
	s.wantClosed(t, ReasonKilled, 1)
	c.Reply(framed([]byte("late")))
	c.ReplyThenClose(nil, 0, ReasonIdle)
	c.NoReply()
}

func TestCloseFromAnywhereWhileFramesFly(t *testing.T) {
	keys := newPKI(t)
	for _, l := range []Listener{{Protocol: Plaintext}, keys.tlsListener()} {
		t.Run(l.Protocol.String(), func(t *testing.T) {
			// The count of each connection has no lock: Open, Frame and Closed
			// are one after another.
			handler := &echo{
				onOpen: func(c *Conn, _ *tls.ConnectionState) { c.SetState(new(int)) },
				onFrame: func(c *Conn, frame []byte) {
					*c.State().(*int)++
					go c.Reply(framed(frame))
				},
				onClosed: func(c *Conn, _ Reason) { *c.State().(*int) = -1 },
			}
			s := serve(t, handler, l)
			var wg sync.WaitGroup
			stop := make(chan struct{})
			for range 8 {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						var conn net.Conn = s.dial(t)
						if l.Protocol.TLS() {
							conn = tls.Client(conn, keys.clientConfig())
						}
						for range 50 {
							if _, err := conn.Write(framed(make([]byte, 1000))); err != nil {
								break
							}
							if _, err := io.ReadFull(conn, make([]byte, 1004)); err != nil {
								break
							}
						}
						_ = conn.Close()
					}
				})
			}
			for killed := 0; killed < 200; {
				for c := range s.Connections() {
					if killed%3 == 0 {
						_ = c.ID()
					}
					c.Close(ReasonKilled)
					killed++
				}
				runtime.Gosched()
			}
			close(stop)
			wg.Wait()
			s.wantEstablished(t, 0)
		})
	}
}

func TestShutdownEndsConnectionsInEveryState(t *testing.T) {
	keys := newPKI(t)
	hello := clientHello(t, keys.clientConfig())
	s := serve(t, &echo{onFrame: func(*Conn, []byte) {}}, keys.tlsListener())
	s.dial(t)                                                                // silent
	send(t, s.dial(t), hello[:100])                                          // half a hello
	send(t, s.dial(t), hello)                                                // in its handshake
	send(t, s.dialTLS(t, keys.clientConfig()), framed([]byte("unanswered"))) // with a request in flight
	s.dialTLS(t, keys.clientConfig())                                        // idle
	s.wantEstablished(t, 5)
	eventually(t, func() bool { return s.counts().Handshakes == 2 }, "two handshakes")
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.wantClosed(t, ReasonShutdown, 5)
	if _, err := s.Listen(Listener{}); err == nil {
		t.Error("Listen after Shutdown = nil, want an error")
	}
}

func TestAServerThatWasNeverStartedLeavesNothing(t *testing.T) {
	before := openFiles(t)
	s := New(Options{Handler: &echo{}})
	addr, err := s.Listen(Listener{Host: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Listen(Listener{Host: "127.0.0.1", Port: int(addr.Port())}); err == nil {
		t.Error("second Listen on a port = nil, want an error")
	}
	refused := errors.New("no counter")
	s.options.BeforeListen = func(int) error { return refused }
	if _, err := s.Listen(Listener{Host: "127.0.0.1"}); !errors.Is(err, refused) {
		t.Errorf("Listen = %v, want what BeforeListen gave", err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := openFiles(t); after != before {
		t.Errorf("%d files are open, %d were before", after, before)
	}
}

func TestCryptoTLSHasTheFieldsThatIdleConnectionsDrop(t *testing.T) {
	if _, err := findTLSFields(); err != nil {
		t.Error(err)
	}
}

func TestTLSWorksWithoutTheFieldsThatIdleConnectionsDrop(t *testing.T) {
	keys := newPKI(t)
	s := serve(t, &echo{}, keys.tlsListener(), func(o *Options) { o.renamedTLSFields = true })
	var conns []*tls.Conn
	for range 10 {
		conns = append(conns, s.dialTLS(t, keys.clientConfig()))
	}
	for i := range 5 {
		for _, conn := range conns {
			roundTrip(t, conn, make([]byte, 1+i*20_000))
		}
	}
}

func TestAnIdleConnectionHoldsNoBufferAndNoGoroutine(t *testing.T) {
	keys := newPKI(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			s := serve(t, &echo{}, keys.tlsListener())
			config := keys.clientConfig()
			config.MaxVersion = version
			before := runtime.NumGoroutine()
			for range 20 {
				roundTrip(t, s.dialTLS(t, config), make([]byte, 16<<10))
			}
			if after := runtime.NumGoroutine(); after > before+2 {
				t.Errorf("20 idle connections hold %d goroutines", after-before)
			}
			for c := range s.Connections() {
				eventually(t, func() bool { return c.run.Load() == runIdle }, "the connection to be idle")
				c.mu.Lock()
				fields := &s.fields
				raw := field[struct{ buf []byte }](c.session.tls, fields.rawInput)
				hand := field[struct{ buf []byte }](c.session.tls, fields.hand)
				if c.in != nil || c.out != nil || c.session.held != nil || c.session.queue.cipher != nil || raw.buf != nil || hand.buf != nil {
					t.Errorf("idle connection holds in=%v out=%v held=%v rawInput=%d hand=%d",
						c.in, c.out, c.session.held, cap(raw.buf), cap(hand.buf))
				}
				c.mu.Unlock()
			}
		})
	}
}
