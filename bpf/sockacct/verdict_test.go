package sockacct

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	clientHello = []byte{0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03}
	apiVersions = []byte{0, 0, 0, 20, 0, 18, 0, 3, 0, 0, 0, 1, 0, 4, 't', 'e', 's', 't', 0, 0}
)

// A client that has connected, and how it sends its first bytes.
type opening struct {
	name   string
	want   Verdict
	server func(*net.TCPConn)                               // after accept
	before func(t *testing.T, fd int, to netip.AddrPort)    // instead of connect
	send   func(t *testing.T, s *space, fd int, c *Counter) // after connect
}

func sends(parts ...[]byte) func(*testing.T, *space, int, *Counter) {
	return func(t *testing.T, _ *space, fd int, _ *Counter) {
		t.Helper()
		for _, p := range parts {
			write(t, fd, p)
		}
	}
}

func oneByOne(b []byte) [][]byte {
	var parts [][]byte
	for i := range b {
		parts = append(parts, b[i:i+1])
	}
	return parts
}

// late makes a client hold back the end of its handshake until it has data to send along.
func late(t *testing.T, fd int, to netip.AddrPort) {
	t.Helper()
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 5); err != nil {
		t.Fatal(err)
	}
	if err := connectFD(fd, to); err != nil {
		t.Fatal(err)
	}
}

func fastOpen(first []byte) func(*testing.T, int, netip.AddrPort) {
	return func(t *testing.T, fd int, to netip.AddrPort) {
		t.Helper()
		if err := unix.Sendto(fd, first, unix.MSG_FASTOPEN, sockaddr(to)); err != nil {
			t.Fatal(err)
		}
	}
}

func openings() []opening {
	return []opening{
		{name: "says nothing", want: Undecided},
		{name: "whole hello", want: TLS, send: sends(clientHello)},
		{name: "hello byte by byte", want: TLS, send: sends(oneByOne(clientHello)...)},
		{name: "hello in two after five bytes", want: TLS, send: sends(clientHello[:5], clientHello[5:])},
		{name: "five bytes of a hello", want: Undecided, send: sends(clientHello[:5])},
		{name: "Kafka request", want: Plaintext, send: sends(apiVersions)},
		{name: "Kafka request byte by byte", want: Plaintext, send: sends(oneByOne(apiVersions)...)},
		{name: "handshake record without a hello", want: Plaintext, send: sends([]byte{0x16, 3, 1, 0, 5, 2})},
		{name: "alert record", want: Plaintext, send: sends([]byte{0x15, 3, 1, 0, 2, 1})},
		{name: "version of the future", want: Plaintext, send: sends([]byte{0x16, 3, 5, 0, 5, 1})},
		{name: "record too long", want: Plaintext, send: sends([]byte{0x16, 3, 3, 0x41, 0, 1})},
		{name: "HTTP", want: Plaintext, send: sends([]byte("GET / HTTP/1.1\r\n\r\n"))},
		{name: "hello ends the handshake", want: TLS, before: late, send: sends(clientHello)},
		{name: "part of a hello ends the handshake", want: TLS, before: late, send: sends(clientHello[:2], clientHello[2:])},
		{name: "Kafka request ends the handshake", want: Plaintext, before: late, send: sends(apiVersions)},
		{name: "hello in the SYN", want: TLS, before: fastOpen(clientHello)},
		{name: "part of a hello in the SYN", want: TLS, before: fastOpen(clientHello[:3]), send: sends(clientHello[3:])},
		{name: "Kafka request in the SYN", want: Plaintext, before: fastOpen(apiVersions)},
		{
			name: "server speaks first", want: TLS,
			server: func(c *net.TCPConn) { _, _ = c.Write([]byte("welcome")) },
			send: func(t *testing.T, _ *space, fd int, _ *Counter) {
				t.Helper()
				if _, err := unix.Read(fd, make([]byte, 7)); err != nil {
					t.Fatal(err)
				}
				write(t, fd, clientHello)
			},
		},
	}
}

func TestFirstBytesTellTLSWhateverThePortClaims(t *testing.T) {
	for _, family := range []struct {
		name, listen string
		to           func(uint16) netip.AddrPort
	}{
		{"v4", "127.0.0.1:0", loopback},
		{"v6", "[::1]:0", loopback6},
		{"v4 on a dual-stack socket", "[::]:0", loopback},
		{"v6 on a dual-stack socket", "[::]:0", loopback6},
	} {
		t.Run(family.name, func(t *testing.T) {
			c, s := load(t, Options{}), newSpace(t)
			s.sysctl(t, "ipv4/tcp_fastopen", "519") // both ends, data in the SYN without a cookie
			for _, o := range openings() {
				t.Run(o.name, func(t *testing.T) { o.run(t, c, s, family.listen, family.to) })
			}
			noneLost(t, c)
		})
	}
}

func (o *opening) run(t *testing.T, c *Counter, s *space, address string, to func(uint16) netip.AddrPort) {
	t.Helper()
	l, port := s.listen(t, address)
	if raw, err := l.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_FASTOPEN, 16) })
	}
	watch(t, c, s, port, 0)
	fd, err := s.socket(to(port))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		t.Fatal(err)
	}
	if o.before != nil {
		o.before(t, fd, to(port))
	} else if err := connectFD(fd, to(port)); err != nil {
		t.Fatal(err)
	}
	if o.server != nil {
		conn, err := l.AcceptTCP()
		if err != nil {
			t.Fatal(err)
		}
		defer quit(conn)
		o.server(conn)
	}
	if o.send != nil {
		o.send(t, s, fd, c)
	}
	becomes(t, c, s, port, "one connection, "+o.want.String(), func(p Port) bool {
		of := map[Verdict]int64{Undecided: p.Undecided, TLS: p.TLS, Plaintext: p.Plaintext, Unknown: p.Unknown}
		if p.Established != 1 || of[o.want] != 1 {
			return false
		}
		return o.server == nil || (p.Gauge.Served == 1 && p.Gauge.ServedTLS == 1)
	})
	closeFD(fd)
	quit(l)
}

// verdictOf is the rule in Go: what sockacct.bpf.c must find, however the bytes are cut.
func verdictOf(b []byte) Verdict {
	for i, fits := range []func(byte) bool{
		func(b byte) bool { return b == 0x16 },
		func(b byte) bool { return b == 3 },
		func(b byte) bool { return b <= 4 },
		func(b byte) bool { return b <= 0x40 },
		func(byte) bool { return true },
		func(b byte) bool { return b == 1 },
	} {
		switch {
		case i == len(b):
			return Undecided
		case !fits(b[i]):
			return Plaintext
		}
	}
	return TLS
}

func TestVerdictsAreThoseOfTheRuleHoweverTheBytesAreCut(t *testing.T) {
	c, s := load(t, Options{}), newSpace(t)
	_, port := s.listen(t, "[::]:0")
	watch(t, c, s, port, 0)
	rnd := rand.New(rand.NewPCG(7, 9))
	almost := [][]byte{{0x16, 0x16, 0x16, 0x15}, {3, 3, 3, 2}, {1, 3, 4, 5}, {0, 2, 0x40, 0x41}, {0, 1, 2, 255}, {1, 1, 1, 0}, {0}, {1}}
	want := map[Verdict]int64{}
	const clients = 400
	for i := range clients {
		b := make([]byte, rnd.IntN(len(almost)+1))
		for j := range b {
			b[j] = almost[j][rnd.IntN(len(almost[j]))]
		}
		want[verdictOf(b)]++
		to := loopback(port)
		if i%2 == 0 {
			to = loopback6(port)
		}
		fd := s.mustConnect(t, to)
		t.Cleanup(func() { closeFD(fd) })
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
			t.Fatal(err)
		}
		for len(b) > 0 {
			n := 1 + rnd.IntN(len(b))
			write(t, fd, b[:n])
			b = b[n:]
		}
	}
	becomes(t, c, s, port, fmt.Sprintf("verdicts of the rule: %v", want), func(p Port) bool {
		return p.Established == clients && p.TLS == want[TLS] && p.Plaintext == want[Plaintext] && p.Undecided == want[Undecided]
	})
	noneLost(t, c)
}

func TestServerThatDefersAcceptIsCountedWithItsVerdict(t *testing.T) {
	c, s := load(t, Options{}), newSpace(t)
	l, port := s.listen(t, "127.0.0.1:0")
	raw, err := l.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, 5) })
	if err != nil {
		t.Fatal(err)
	}
	watch(t, c, s, port, 0)
	fd := s.mustConnect(t, loopback(port))
	if p := counts(t, c, s, port); p.Established != 0 {
		t.Errorf("established = %d before any data, want 0: the kernel has no socket yet", p.Established)
	}
	write(t, fd, clientHello)
	becomes(t, c, s, port, "one TLS connection", func(p Port) bool { return p.Established == 1 && p.TLS == 1 })
	closeFD(fd)
}

func TestRealTLSHandshakesAreTLS(t *testing.T) {
	c, s := load(t, Options{}), newSpace(t)
	config := serverConfig(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		l, port := s.listen(t, "127.0.0.1:0")
		watch(t, c, s, port, 0)
		go func() {
			conn, err := tls.NewListener(l, config).Accept()
			if err == nil {
				_, _ = conn.Read(make([]byte, 1))
				quit(conn)
			}
		}()
		fd := s.mustConnect(t, loopback(port))
		file := os.NewFile(uintptr(fd), "client")
		raw, err := net.FileConn(file)
		quit(file)
		if err != nil {
			t.Fatal(err)
		}
		conn := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, MinVersion: version, MaxVersion: version})
		if err := conn.Handshake(); err != nil {
			t.Fatalf("%s: %v", tls.VersionName(version), err)
		}
		becomes(t, c, s, port, tls.VersionName(version)+" is served as TLS", func(p Port) bool {
			return p.TLS == 1 && p.Gauge.ServedTLS == 1
		})
		_, _ = conn.Write([]byte{1})
		quit(conn)
		allZero(t, c, s, port)
	}
	noneLost(t, c)
}

func serverConfig(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(crand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}
