package network

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/brokerlab/brokerlab/broker/quota"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// echo answers every frame with its own bytes, and remembers what it saw.
type echo struct {
	opened, closed atomic.Int64
	onOpen         func(*Conn, *tls.ConnectionState)
	onFrame        func(*Conn, []byte) // instead of the echo
	onClosed       func(*Conn, Reason)

	mu      sync.Mutex
	reasons map[Reason]int
}

func (e *echo) Open(c *Conn, state *tls.ConnectionState) {
	e.opened.Add(1)
	if e.onOpen != nil {
		e.onOpen(c, state)
	}
}

func (e *echo) Frame(c *Conn, frame []byte) {
	if e.onFrame != nil {
		e.onFrame(c, frame)
		return
	}
	c.Reply(framed(frame))
}

func (e *echo) Closed(c *Conn, reason Reason) {
	if e.onClosed != nil {
		e.onClosed(c, reason)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.reasons == nil {
		e.reasons = map[Reason]int{}
	}
	e.reasons[reason]++
	e.closed.Add(1)
}

// framed puts a size prefix before body.
func framed(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...)
}

// serving is a started server with one listener.
type serving struct {
	*Server
	handler *echo
	addr    netip.AddrPort
	log     *lockedBuffer
	limits  *quota.Connections // nil: none
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serve starts a server with listener l (Host defaults to 127.0.0.1); it is
// shut down, and looked over for leaks, at the test's end.
func serve(t *testing.T, handler *echo, l Listener, change ...func(*Options)) *serving {
	t.Helper()
	before := openFiles(t)
	ignore := goleak.IgnoreCurrent()
	switch l.Host {
	case "":
		l.Host = "127.0.0.1"
	case "*":
		l.Host = ""
	}
	if l.Name == "" {
		l.Name = l.Protocol.String()
	}
	log := &lockedBuffer{}
	options := Options{Handler: handler, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, f := range change {
		f(&options)
	}
	s := New(options)
	addr, err := s.Listen(l)
	if err != nil {
		t.Fatalf("Listen(%+v) = %v", l, err)
	}
	s.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Fatalf("Shutdown() = %v", err)
		}
		if opened, closed := handler.opened.Load(), handler.closed.Load(); opened != closed {
			t.Errorf("handler saw %d opened and %d closed", opened, closed)
		}
		for i := range s.Counts() {
			n := &s.Counts()[i]
			if n.Established != 0 || n.Handshaking != 0 || n.Queued != 0 || n.Held != 0 || n.Throttled != 0 {
				t.Errorf("after shutdown: %+v, want all gauges 0", n)
			}
			if n.Accepted != n.Admitted+n.Refused {
				t.Errorf("accepted %d, but admitted %d and refused %d", n.Accepted, n.Admitted, n.Refused)
			}
		}
		if options.Limits != nil {
			if n := options.Limits.State(); n.Connections != 0 || n.SSL != 0 || n.IPs != 0 {
				t.Errorf("after shutdown %d slots are taken, %d of them by TLS, by %d addresses", n.Connections, n.SSL, n.IPs)
			}
		}
		for c := range s.Connections() {
			t.Errorf("after shutdown the table holds %v", c.ID())
		}
		goleak.VerifyNone(t, ignore)
		eventually(t, func() bool { return openFiles(t) <= before }, "open files to return to %d", before)
	})
	return &serving{Server: s, handler: handler, addr: addr, log: log, limits: options.Limits}
}

// limited gives a server limits, whose rates are measured over two windows of
// a second.
func limited(c quota.Config) func(*Options) {
	return func(o *Options) { o.Limits = quota.New(quota.Window{Samples: 2, Size: time.Second}, c) }
}

// wantSlots waits until this many slots are taken, of them by TLS.
func (s *serving) wantSlots(t *testing.T, all, ssl int) {
	t.Helper()
	eventually(t, func() bool {
		n := s.limits.State()
		return n.Connections == all && n.SSL == ssl
	}, "%d slots to be taken, %d of them by TLS; there are %+v", all, ssl, s.limits.State())
}

func (s *serving) counts() ListenerCounts { return s.Counts()[0] }

// only is the first connection in the table; nil when it is empty.
func (s *serving) only() *Conn {
	for c := range s.Connections() {
		return c
	}
	return nil
}

// wantClosed waits until n connections have ended for reason.
func (s *serving) wantClosed(t *testing.T, reason Reason, n uint64) {
	t.Helper()
	eventually(t, func() bool { return s.counts().Closed[reason] >= n }, "%d connections closed for %v", n, reason)
	if got := s.counts().Closed[reason]; got != n {
		t.Errorf("closed for %v = %d, want %d", reason, got, n)
	}
}

// wantEstablished waits until n connections are registered.
func (s *serving) wantEstablished(t *testing.T, n int64) {
	t.Helper()
	eventually(t, func() bool { return s.counts().Established == n }, "%d connections established", n)
}

func eventually(t *testing.T, condition func() bool, what string, args ...any) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !condition() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %v for "+what, append([]any{patience}, args...)...)
		}
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// dial connects, with a deadline for all that follows.
func (s *serving) dial(t *testing.T) *net.TCPConn {
	t.Helper()
	conn, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(s.addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// send writes p.
func send(t *testing.T, conn io.Writer, p []byte) {
	t.Helper()
	if _, err := conn.Write(p); err != nil {
		t.Fatalf("write: %v", err)
	}
}

// roundTrip sends body as a frame and wants it back.
func roundTrip(t *testing.T, conn io.ReadWriter, body []byte) {
	t.Helper()
	if c, ok := conn.(net.Conn); ok { // what came before may have taken all the time of the dial
		_ = c.SetDeadline(time.Now().Add(patience))
	}
	send(t, conn, framed(body))
	wantFrame(t, conn, body)
}

// wantFrame reads one frame and wants it to be body.
func wantFrame(t *testing.T, conn io.Reader, body []byte) {
	t.Helper()
	got := make([]byte, 4+len(body))
	if _, err := io.ReadFull(conn, got); err != nil {
		t.Fatalf("read response of %d bytes: %v", len(body), err)
	}
	if !bytes.Equal(got, framed(body)) {
		t.Fatalf("response of %d bytes differs from the request", len(body))
	}
}

// wantEnd reads until the connection ends and wants exactly these bytes first.
func wantEnd(t *testing.T, conn io.Reader, want string) {
	t.Helper()
	got, err := io.ReadAll(conn)
	if isTimeout(err) {
		t.Fatalf("connection is still open after %v", patience)
	}
	if string(got) != want {
		t.Fatalf("read %q before the end, want %q", got, want)
	}
}

func isTimeout(err error) bool {
	var netErr net.Error
	return errors.As(err, &netErr) && netErr.Timeout()
}

// pki is one authority with a server's and a client's certificate.
type pki struct {
	pool           *x509.CertPool
	server, client tls.Certificate
}

func newPKI(tb testing.TB) *pki {
	tb.Helper()
	p, err := makePKI()
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func makePKI() (*pki, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return nil, err
	}
	caCert, err := x509.ParseCertificate(caDER)
	if err != nil {
		return nil, err
	}
	p := &pki{pool: x509.NewCertPool()}
	p.pool.AddCert(caCert)
	for _, leaf := range []struct {
		into   *tls.Certificate
		serial int64
		name   *pkix.Name
	}{
		{&p.server, 2, &pkix.Name{CommonName: "broker.test"}},
		{&p.client, 4711, &pkix.Name{CommonName: "alice", Organization: []string{"Acme, Inc."}}},
	} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(leaf.serial), Subject: *leaf.name, NotAfter: time.Now().Add(time.Hour).Truncate(time.Second),
			DNSNames: []string{"broker.test"}, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		der, err := x509.CreateCertificate(rand.Reader, template, caCert, key.Public(), caKey)
		if err != nil {
			return nil, err
		}
		*leaf.into = tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	}
	return p, nil
}

func (p *pki) serverConfig() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{p.server}, ClientCAs: p.pool, MinVersion: tls.VersionTLS12}
}

func (p *pki) clientConfig() *tls.Config {
	return &tls.Config{RootCAs: p.pool, ServerName: "broker.test", CurvePreferences: []tls.CurveID{tls.X25519}}
}

// tlsListener is a TLS listener with the server configuration, changed by change.
func (p *pki) tlsListener(change ...func(*tls.Config)) Listener {
	config := p.serverConfig()
	for _, f := range change {
		f(config)
	}
	return Listener{Protocol: SSL, TLS: func() *tls.Config { return config }}
}

// dialTLS connects and runs the handshake.
func (s *serving) dialTLS(t *testing.T, config *tls.Config) *tls.Conn {
	t.Helper()
	conn := tls.Client(s.dial(t), config)
	if err := conn.HandshakeContext(t.Context()); err != nil {
		t.Fatalf("handshake: %v", err)
	}
	return conn
}
