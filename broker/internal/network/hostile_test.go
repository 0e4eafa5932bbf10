package network

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestRefusesFramesByTheirSizeAtOnceAndWithoutAByte(t *testing.T) {
	for _, tc := range []struct {
		name   string
		first  []byte
		reason Reason
	}{
		{"zero", []byte{0, 0, 0, 0}, ReasonMalformedRequest},
		{"minus one", []byte{0xff, 0xff, 0xff, 0xff}, ReasonMalformedRequest},
		{"smallest", []byte{0x80, 0, 0, 0}, ReasonMalformedRequest},
		{"one over the limit", binary.BigEndian.AppendUint32(nil, 1001), ReasonOversizeFrame},
		{"largest", []byte{0x7f, 0xff, 0xff, 0xff}, ReasonOversizeFrame},
		{"TLS", []byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, ReasonTLSOnPlaintext},
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n"), ReasonOversizeFrame},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := serve(t, &echo{}, Listener{Protocol: Plaintext, MaxFrame: 1000})
			conn := s.dial(t)
			send(t, conn, tc.first)
			wantEnd(t, conn, "")
			s.wantClosed(t, tc.reason, 1)
			eventually(t, func() bool {
				return strings.Contains(s.log.String(), "level=INFO msg=\"connection closed\"") &&
					strings.Contains(s.log.String(), "reason="+tc.reason.String())
			}, "a log line with the reason")
		})
	}
}

func TestFrameOfExactlyTheLimitIsServed(t *testing.T) {
	s := serve(t, &echo{}, Listener{Protocol: Plaintext, MaxFrame: 1000})
	roundTrip(t, s.dial(t), bytes.Repeat([]byte("x"), 1000))
}

func TestUnauthenticatedFramesAreBoundedUntilSetAuthenticated(t *testing.T) {
	handler := &echo{}
	handler.onFrame = func(c *Conn, frame []byte) {
		c.SetAuthenticated(true)
		c.Reply(framed(frame))
	}
	s := serve(t, handler, Listener{Protocol: SASLPlaintext, MaxFrame: 10_000, MaxAuthFrame: 100, FailureDelay: 50 * time.Millisecond})
	conn := s.dial(t)
	roundTrip(t, conn, make([]byte, 100))
	roundTrip(t, conn, make([]byte, 10_000))

	refused := s.dial(t)
	begin := time.Now()
	send(t, refused, binary.BigEndian.AppendUint32(nil, 101))
	wantEnd(t, refused, "")
	if took := time.Since(begin); took < 50*time.Millisecond {
		t.Errorf("oversize frame before authentication closed after %v, want the delay first", took)
	}
	s.wantClosed(t, ReasonOversizeFrame, 1)

	refused = s.dial(t)
	begin = time.Now()
	send(t, refused, []byte{0x16, 3, 1, 2, 0, 1})
	wantEnd(t, refused, "")
	if took := time.Since(begin); took < 50*time.Millisecond {
		t.Errorf("TLS on SASL_PLAINTEXT closed after %v, want the delay first", took)
	}
	s.wantClosed(t, ReasonTLSOnPlaintext, 1)

	refused = s.dial(t)
	begin = time.Now()
	send(t, refused, []byte{0xff, 0xff, 0xff, 0xff})
	wantEnd(t, refused, "")
	if took := time.Since(begin); took < 50*time.Millisecond {
		t.Errorf("negative size before authentication closed after %v, want the delay first", took)
	}
	s.wantClosed(t, ReasonMalformedRequest, 1)
}

func TestHalfAFrameCostsNoMoreThanItsBytes(t *testing.T) {
	s := serve(t, &echo{}, Listener{Protocol: Plaintext})
	claim := binary.BigEndian.AppendUint32(nil, 100<<20)
	for range 200 {
		send(t, s.dial(t), append(claim, "abc"...))
	}
	s.wantEstablished(t, 200)
	eventually(t, func() bool {
		n := s.counts()
		return n.BytesIn == 200*7
	}, "all bytes to arrive")
	for c := range s.Connections() {
		// The loop is done with it once it is idle again.
		eventually(t, func() bool { return c.run.Load() == runIdle }, "the connection to be idle")
		c.mu.Lock()
		if c.in == nil || cap(c.in.b) > 256 {
			t.Errorf("a frame of which 7 bytes arrived holds %+v", c.in)
		}
		c.mu.Unlock()
	}
}

func TestAFrameInSinglePiecesIsPutTogether(t *testing.T) {
	keys := newPKI(t)
	for _, l := range []Listener{{Protocol: Plaintext}, keys.tlsListener()} {
		t.Run(l.Protocol.String(), func(t *testing.T) {
			s := serve(t, &echo{}, l)
			var conn io.ReadWriter = s.dial(t)
			if l.Protocol.TLS() {
				conn = tls.Client(conn.(net.Conn), keys.clientConfig())
			}
			body := []byte("one byte a write, and over TLS one byte a record")
			for _, b := range framed(body) {
				send(t, conn, []byte{b})
			}
			wantFrame(t, conn, body)
		})
	}
}

func TestSeveralFramesInOneRecordAreAllServed(t *testing.T) {
	keys := newPKI(t)
	s := serve(t, &echo{}, keys.tlsListener())
	conn := s.dialTLS(t, keys.clientConfig())
	var all []byte
	for i := range 100 {
		all = append(all, framed(fmt.Appendf(nil, "frame %d", i))...)
	}
	send(t, conn, all)
	for i := range 100 {
		wantFrame(t, conn, fmt.Appendf(nil, "frame %d", i))
	}
}

func TestPlaintextOnATLSPortGetsJavasAlertAtItsFifthByte(t *testing.T) {
	keys := newPKI(t)
	const alert = "\x15\x03\x03\x00\x02\x02\x50"
	s := serve(t, &echo{}, keys.tlsListener())
	request := framed([]byte{0, 18, 0, 3, 0, 0, 0, 1, 0, 0})

	conn := s.dial(t)
	send(t, conn, request[:4])
	eventually(t, func() bool { return s.counts().BytesIn == 4 }, "four bytes to be read")
	s.wantEstablished(t, 1)
	send(t, conn, request[4:5])
	wantEnd(t, conn, alert)
	s.wantClosed(t, ReasonPlaintextOnTLS, 1)

	conn = s.dial(t)
	send(t, conn, request)
	wantEnd(t, conn, alert)
	s.wantClosed(t, ReasonPlaintextOnTLS, 2)
}

func TestBrokenHellosFailTheHandshake(t *testing.T) {
	keys := newPKI(t)
	for name, first := range map[string]string{
		"empty record":          "\x16\x03\x01\x00\x00",
		"record over the limit": "\x16\x03\x01\xff\xff",
		"not a hello":           "\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00",
		"hello of 16 MB":        "\x16\x03\x01\x00\x05\x01\xff\xff\xff\x00",
		"empty hello":           "\x16\x03\x01\x00\x04\x01\x00\x00\x00",
		"alert first":           "\x15\x03\x01\x00\x02\x02\x28",
		"hello full of nothing": "\x16\x03\x01\x00\x08\x01\x00\x00\x04\x00\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, &echo{}, keys.tlsListener())
			conn := s.dial(t)
			send(t, conn, []byte(first))
			if _, err := io.ReadAll(conn); err != nil && isTimeout(err) {
				t.Fatal("connection is still open")
			}
			s.wantClosed(t, ReasonTLSFailed, 1)
		})
	}
}

func TestThousandsOfHalfHandshakesDelayNobody(t *testing.T) {
	keys := newPKI(t)
	s := serve(t, &echo{}, keys.tlsListener())
	hello := clientHello(t, keys.clientConfig())
	const silent = 2000
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range silent / 8 {
				conn, err := net.Dial("tcp", s.addr.String())
				if err != nil {
					t.Error(err)
					return
				}
				t.Cleanup(func() { _ = conn.Close() })
				if _, err := conn.Write(hello[:len(hello)/2]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	s.wantEstablished(t, silent)
	eventually(t, func() bool { return s.counts().BytesIn == uint64(silent*(len(hello)/2)) }, "all halves to arrive")
	if got := s.counts().Handshaking; got != silent {
		t.Errorf("handshaking = %d, want %d", got, silent)
	}
	goroutines := runtime.NumGoroutine()
	if goroutines > 100 {
		t.Errorf("%d half hellos hold %d goroutines", silent, goroutines)
	}
	roundTrip(t, s.dialTLS(t, keys.clientConfig()), []byte("served"))
	if got := s.counts(); got.Established != silent+1 || got.Handshakes != 1 {
		t.Errorf("counts = %+v, want %d established and one handshake", got, silent+1)
	}
}

func TestWholeHellosThatFallSilentHoldNoToken(t *testing.T) {
	keys := newPKI(t)
	s := serve(t, &echo{}, keys.tlsListener())
	hello := clientHello(t, keys.clientConfig())
	for range 200 {
		send(t, s.dial(t), hello)
	}
	eventually(t, func() bool { return s.counts().BytesIn == uint64(200*len(hello)) }, "all hellos to arrive")
	roundTrip(t, s.dialTLS(t, keys.clientConfig()), []byte("served"))
}

// clientHello is the first flight of a client.
func clientHello(tb testing.TB, config *tls.Config) []byte {
	tb.Helper()
	client, server := net.Pipe()
	defer func() { _ = server.Close() }()
	go func() {
		_ = tls.Client(client, config).HandshakeContext(tb.Context())
		_ = client.Close()
	}()
	header := make([]byte, recordHeader)
	if _, err := io.ReadFull(server, header); err != nil {
		tb.Fatal(err)
	}
	body := make([]byte, binary.BigEndian.Uint16(header[3:]))
	if _, err := io.ReadFull(server, body); err != nil {
		tb.Fatal(err)
	}
	return slices.Concat(header, body)
}

func TestAHelloInOneByteRecordsIsUnderstood(t *testing.T) {
	keys := newPKI(t)
	s := serve(t, &echo{}, keys.tlsListener())
	conn := tls.Client(&splitHello{Conn: s.dial(t)}, keys.clientConfig())
	roundTrip(t, conn, []byte("split"))
}

// splitHello rewrites the first record that is written into records of one
// byte each.
type splitHello struct {
	net.Conn
	done bool
}

func (c *splitHello) Write(p []byte) (int, error) {
	if c.done {
		return c.Conn.Write(p)
	}
	c.done = true
	var split []byte
	for _, b := range p[recordHeader:] {
		split = append(split, recordHandshake, 3, 1, 0, 1, b)
	}
	_, err := c.Conn.Write(split)
	return len(p), err
}

func TestSilentConnectionsExpire(t *testing.T) {
	keys := newPKI(t)
	hello := clientHello(t, keys.clientConfig())
	for _, l := range []Listener{{Protocol: Plaintext}, keys.tlsListener()} {
		t.Run(l.Protocol.String(), func(t *testing.T) {
			l.IdleTimeout = 200 * time.Millisecond
			s := serve(t, &echo{}, l)
			for i := range 300 {
				conn := s.dial(t)
				switch i % 3 {
				case 1:
					send(t, conn, hello[:3])
				case 2:
					if l.Protocol.TLS() {
						send(t, conn, hello)
					}
				}
			}
			s.wantClosed(t, ReasonIdle, 300)
			s.wantEstablished(t, 0)
		})
	}
}

// Rule 32 of Kafka's own tests: a request that is being processed, and more that wait, put nothing off.
func TestConnectionsWithUnansweredRequestsExpire(t *testing.T) {
	frames := make(chan string, 10)
	s := serve(t, &echo{onFrame: func(_ *Conn, frame []byte) { frames <- string(frame) }}, Listener{IdleTimeout: 200 * time.Millisecond})
	one, two := s.dial(t), s.dial(t)
	send(t, one, framed([]byte("a")))
	send(t, two, append(framed([]byte("b")), framed([]byte("is never delivered"))...))
	wantEnd(t, one, "")
	wantEnd(t, two, "")
	s.wantClosed(t, ReasonIdle, 2)
	if n := len(frames); n != 2 {
		t.Errorf("%d frames were delivered, want 2", n)
	}
}

func TestActivityPutsExpiryOff(t *testing.T) {
	s := serve(t, &echo{}, Listener{Protocol: Plaintext, IdleTimeout: 400 * time.Millisecond})
	idle, busy := s.dial(t), s.dial(t)
	s.wantEstablished(t, 2)
	ended := make(chan struct{})
	go func() {
		_, _ = io.ReadAll(idle)
		close(ended)
	}()
	for rounds := 0; ; rounds++ {
		roundTrip(t, busy, []byte("still here"))
		select {
		case <-ended:
			s.wantClosed(t, ReasonIdle, 1)
			return
		case <-time.After(10 * time.Millisecond):
		}
		if rounds > 1500 {
			t.Fatal("the idle connection did not expire")
		}
	}
}

func TestConnectAndResetLeavesNothing(t *testing.T) {
	keys := newPKI(t)
	s := serve(t, &echo{}, keys.tlsListener())
	before := openFiles(t)
	hello := clientHello(t, keys.clientConfig())
	var wg sync.WaitGroup
	const cycles = 1000
	for range 10 {
		wg.Go(func() {
			for i := range cycles / 10 {
				conn, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(s.addr))
				if err != nil {
					t.Error(err)
					return
				}
				switch i % 4 {
				case 1:
					_, _ = conn.Write(hello[:rand.IntN(len(hello))])
				case 3:
					_, _ = conn.Write(hello)
					if rand.IntN(2) == 0 {
						_, _ = conn.Read(make([]byte, 100))
					}
				}
				_ = conn.SetLinger(0)
				_ = conn.Close()
			}
		})
	}
	wg.Wait()
	eventually(t, func() bool {
		n := s.counts()
		// Linux may drop what was reset before it was accepted.
		ended := n.Closed[ReasonClientClosed] + n.Closed[ReasonClientReset]
		return n.Established == 0 && n.Handshaking == 0 && n.Accepted == ended
	}, "every accepted connection to end, counts %+v", s.counts())
	eventually(t, func() bool { return openFiles(t) <= before }, "descriptors to return to %d", before)
	roundTrip(t, s.dialTLS(t, keys.clientConfig()), []byte("served"))
}

func TestAClientThatDoesNotReadIsMutedAndBounded(t *testing.T) {
	keys := newPKI(t)
	for _, l := range []Listener{{Protocol: Plaintext}, keys.tlsListener()} {
		t.Run(l.Protocol.String(), func(t *testing.T) {
			handler := &echo{}
			answer := framed(make([]byte, 16<<20))
			var frames int // on the loop's goroutine, read after the server has ended it
			handler.onFrame = func(c *Conn, _ []byte) {
				frames++
				c.Reply(answer)
			}
			s := serve(t, handler, l)
			var conn io.ReadWriter = s.dial(t)
			if l.Protocol.TLS() {
				conn = tls.Client(conn.(net.Conn), keys.clientConfig())
			}
			for range 50 {
				send(t, conn, framed([]byte("more")))
			}
			var c *Conn
			eventually(t, func() bool {
				if c = s.only(); c == nil {
					return false
				}
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.out != nil
			}, "the response to be stuck")
			c.mu.Lock()
			held := 0
			if c.out != nil && c.out.cipher != nil {
				held = cap(c.out.cipher.b)
			}
			c.mu.Unlock()
			if held > 256<<10 {
				t.Errorf("a stuck response holds %d bytes of ciphertext", held)
			}
			if got := s.Unsent(); got != int64(len(answer)) {
				t.Errorf("Unsent() = %d, want the stuck response's %d", got, len(answer))
			}
			// It goes on when the client reads.
			for range 3 {
				wantFrame(t, conn, answer[4:])
			}
			c.Close(ReasonKilled)
			s.wantClosed(t, ReasonKilled, 1)
			if frames > 6 {
				t.Errorf("%d requests were served to a client that read 3 responses", frames)
			}
		})
	}
}

func TestKeyUpdatesAreAnswered(t *testing.T) {
	keys := newPKI(t)
	s := serve(t, &echo{}, keys.tlsListener())
	raw := takeOver(t, s.dialTLS(t, keys.clientConfig()))
	for i := range 5 {
		body := fmt.Appendf(nil, "generation %d", i)
		send(t, raw.conn, raw.keyUpdate(t))
		send(t, raw, framed(body))
		raw.wantFrame(t, body)
	}
	// Several in one piece, with a frame cut in two by them.
	frame := framed([]byte("cut by new keys"))
	all := append(raw.seal(23, frame[:7]), raw.keyUpdate(t)...)
	all = append(all, raw.keyUpdate(t)...)
	send(t, raw.conn, append(all, raw.seal(23, frame[7:])...))
	raw.wantFrame(t, frame[4:])
}

func TestKeyUpdatesOfAClientThatDoesNotReadCannotPileUp(t *testing.T) {
	keys := newPKI(t)
	s := serve(t, &echo{}, keys.tlsListener())
	raw := takeOver(t, s.dialTLS(t, keys.clientConfig()))
	if err := raw.conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptInt(int(s.only().fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 4096); err != nil {
		t.Fatal(err)
	}
	send(t, raw, binary.BigEndian.AppendUint32(nil, 50<<20))
	for i := 0; s.counts().Closed[ReasonTLSFailed] == 0; i++ {
		if i > 10_000 {
			t.Fatal("key updates pile up")
		}
		var batch []byte
		for range 50 {
			// A byte of a frame after each: crypto/tls bounds updates in a row.
			batch = append(append(batch, raw.keyUpdate(t)...), raw.seal(23, []byte{0})...)
		}
		if _, err := raw.conn.Write(batch); err != nil {
			break
		}
	}
	s.wantEstablished(t, 0)
	s.wantClosed(t, ReasonTLSFailed, 1)
}

func TestUnfinishedHandshakeMessagesAfterTheHandshakeEndIt(t *testing.T) {
	keys := newPKI(t)
	s := serve(t, &echo{}, keys.tlsListener())
	raw := takeOver(t, s.dialTLS(t, keys.clientConfig()))
	send(t, raw.conn, raw.seal(recordHandshake, append([]byte{24, 0, 0xff, 0}, make([]byte, 200)...)))
	s.wantClosed(t, ReasonTLSFailed, 1)
}

func TestGarbageAfterTheHandshakeFailsTLS(t *testing.T) {
	keys := newPKI(t)
	s := serve(t, &echo{}, keys.tlsListener())
	conn := s.dialTLS(t, keys.clientConfig())
	send(t, conn.NetConn(), []byte("\x17\x03\x03\x00\x20this is no ciphertext of any key"))
	_, _ = io.ReadAll(conn)
	s.wantClosed(t, ReasonTLSFailed, 1)
}

func TestHowAClientLeavesIsTold(t *testing.T) {
	keys := newPKI(t)
	t.Run("FIN", func(t *testing.T) {
		s := serve(t, &echo{}, Listener{Protocol: Plaintext})
		conn := s.dial(t)
		roundTrip(t, conn, []byte("x"))
		_ = conn.Close()
		s.wantClosed(t, ReasonClientClosed, 1)
	})
	t.Run("RST", func(t *testing.T) {
		s := serve(t, &echo{}, Listener{Protocol: Plaintext})
		conn := s.dial(t)
		roundTrip(t, conn, []byte("x"))
		_ = conn.SetLinger(0)
		_ = conn.Close()
		s.wantClosed(t, ReasonClientReset, 1)
	})
	t.Run("close_notify", func(t *testing.T) {
		s := serve(t, &echo{}, keys.tlsListener())
		conn := s.dialTLS(t, keys.clientConfig())
		roundTrip(t, conn, []byte("x"))
		_ = conn.CloseWrite()
		s.wantClosed(t, ReasonClientClosed, 1)
	})
	t.Run("RST with a request in flight", func(t *testing.T) {
		s := serve(t, &echo{onFrame: func(*Conn, []byte) {}}, Listener{Protocol: Plaintext})
		conn := s.dial(t)
		send(t, conn, framed([]byte("long poll")))
		eventually(t, func() bool { return s.counts().BytesIn > 0 }, "the request to arrive")
		_ = conn.SetLinger(0)
		_ = conn.Close()
		s.wantClosed(t, ReasonClientReset, 1)
	})
	t.Run("FIN with a request in flight", func(t *testing.T) {
		s := serve(t, &echo{onFrame: func(*Conn, []byte) {}}, Listener{Protocol: Plaintext})
		conn := s.dial(t)
		send(t, conn, framed([]byte("long poll")))
		_ = conn.CloseWrite()
		s.wantClosed(t, ReasonClientClosed, 1)
	})
	t.Run("half-close gets its answers first", func(t *testing.T) {
		s := serve(t, &echo{}, Listener{Protocol: Plaintext})
		conn := s.dial(t)
		send(t, conn, append(framed([]byte("one")), framed([]byte("two"))...))
		_ = conn.CloseWrite()
		wantFrame(t, conn, []byte("one"))
		wantFrame(t, conn, []byte("two"))
		s.wantClosed(t, ReasonClientClosed, 1)
	})
}

func TestEveryKillSaysGoodbyeOverTLS(t *testing.T) {
	keys := newPKI(t)
	s := serve(t, &echo{}, keys.tlsListener())
	conn := s.dialTLS(t, keys.clientConfig())
	roundTrip(t, conn, []byte("x"))
	for c := range s.Connections() {
		c.Close(ReasonKilled)
	}
	// io.EOF, which crypto/tls gives for close_notify only at a record's edge
	// with the alert read; a bare FIN would be io.ErrUnexpectedEOF or io.EOF as
	// well, so look at the raw bytes.
	raw := conn.NetConn()
	got, err := io.ReadAll(raw)
	if err != nil || len(got) < recordHeader || got[0] != 23 || len(got) != recordHeader+int(binary.BigEndian.Uint16(got[3:])) {
		t.Fatalf("read %x, %v before the end, want one encrypted alert", got, err)
	}
	s.wantClosed(t, ReasonKilled, 1)
}

func TestDescriptorsRunningOutPauseTheAcceptorAndAreLoggedOnce(t *testing.T) {
	limit := openFiles(t) + 30
	s := serve(t, &echo{}, Listener{Protocol: Plaintext}, func(o *Options) { o.MaxFiles = limit })
	var conns []*net.TCPConn
	for range 40 {
		conns = append(conns, s.dial(t))
	}
	eventually(t, func() bool { return s.counts().FilePauses > 0 }, "accepting to pause")
	paused := s.counts().Accepted
	if paused >= 40 {
		t.Errorf("accepted %d of 40 below a limit of %d descriptors", paused, limit)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	eventually(t, func() bool { return s.counts().Accepted == 40 }, "accepting to go on")
	if n := strings.Count(s.log.String(), "accepting pauses"); n != 1 {
		t.Errorf("%d log lines of the pause, want 1", n)
	}
}

func TestSocketOptionsAreInherited(t *testing.T) {
	s := serve(t, &echo{}, Listener{Protocol: Plaintext})
	s.dial(t)
	s.wantEstablished(t, 1)
	for c := range s.Connections() {
		for _, o := range [][2]int{{unix.IPPROTO_TCP, unix.TCP_NODELAY}, {unix.SOL_SOCKET, unix.SO_KEEPALIVE}} {
			if v, err := unix.GetsockoptInt(int(c.fd), o[0], o[1]); err != nil || v != 1 {
				t.Errorf("socket option %v = %d, %v, want 1", o, v, err)
			}
		}
		if cookie, err := unix.GetsockoptUint64(int(c.fd), unix.SOL_SOCKET, unix.SO_COOKIE); err != nil || cookie != c.Cookie() || cookie == 0 {
			t.Errorf("Cookie() = %d, want the socket's %d, %v", c.Cookie(), cookie, err)
		}
	}
}

func TestAcceptErrorsForWantOfDescriptorsPauseTheAcceptor(t *testing.T) {
	s := serve(t, &echo{}, Listener{Protocol: Plaintext}, func(o *Options) { o.MaxFiles = 1 << 30 })
	clients := make([]int, 20)
	highest := 0
	for i := range clients {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(fd) })
		clients[i], highest = fd, max(highest, fd)
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	}
	defer restore()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(highest + 5), Max: limit.Max}); err != nil {
		t.Skipf("lower the limit of open files: %v", err)
	}
	for _, fd := range clients {
		if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(s.addr.Port()), Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() bool { return s.counts().FilePauses > 0 }, "accepting to pause")
	paused := s.counts().FilePauses
	if paused > 3 {
		t.Errorf("accepting paused %d times at once: it spins", paused)
	}
	restore()
	s.wantEstablished(t, int64(len(clients)))
}

func TestSteadyClientsAreServedThroughAStormOfHandshakes(t *testing.T) {
	keys := newPKI(t)
	s := serve(t, &echo{}, keys.tlsListener())
	const steady = 20
	var storm, clients sync.WaitGroup
	over := make(chan struct{})
	for range steady {
		conn := s.dialTLS(t, keys.clientConfig())
		clients.Go(func() {
			body := framed(make([]byte, 100))
			for rounds := 0; ; rounds++ {
				if _, err := conn.Write(body); err != nil {
					t.Errorf("steady client after %d rounds: %v", rounds, err)
					return
				}
				if _, err := io.ReadFull(conn, make([]byte, len(body))); err != nil {
					t.Errorf("steady client after %d rounds: %v", rounds, err)
					return
				}
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	for range 10 {
		storm.Go(func() {
			for i := range 50 {
				raw, err := net.Dial("tcp", s.addr.String())
				if err != nil {
					t.Error(err)
					return
				}
				if i%2 == 0 {
					_ = raw.Close()
					continue
				}
				conn := tls.Client(raw, keys.clientConfig())
				if err := conn.HandshakeContext(t.Context()); err != nil {
					t.Errorf("handshake in the storm: %v", err)
				}
				_ = raw.Close()
			}
		})
	}
	storm.Wait()
	close(over)
	clients.Wait()
	s.wantEstablished(t, steady)
}
