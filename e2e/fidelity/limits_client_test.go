package fidelity

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a guest sees, as a class. No time is part of it: a class is told by what else was seen before it and after it.
const (
	served  = "served"         // its request was answered
	waiting = "waits"          // it asks, and nothing comes while others are answered
	open    = "open"           // it asks nothing, and nothing comes while others are answered
	eof     = "ended (EOF)"    // the broker ended its stream
	rst     = "ended (RST)"    // the broker reset it
	gone    = "ended"          // one of the two: which one is a race between what it sent and the end
	denied  = "TCP refused"    // nobody listens
	unasked = "unasked answer" // bytes that it did not ask for
)

const (
	// bound is for what has to come at some time. Nothing depends on how soon it does.
	bound = patience
	// silence is for how long nothing may come to a guest of which it is said that it waits.
	silence = 500 * time.Millisecond
)

// guest is a client: a TCP connection, and what is spoken in it over a listener of TLS. One goroutine uses it.
type guest struct {
	name    string
	tcp     *net.TCPConn
	stream  net.Conn // tcp, or TLS over it
	pending chan string
	came    time.Time
	shaken  bool // it has asked once, so TLS has begun
	end     string
}

// call connects to address from source, which may be empty. The error is how it failed, as a class.
func call(ctx context.Context, address, source string) (*net.TCPConn, string) {
	d := net.Dialer{Timeout: bound}
	if source != "" {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(source), 0))
	}
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, ends(err)
	}
	return c.(*net.TCPConn), ""
}

// ends is how a connection ended, as a class, or "" where it is only silent.
func ends(err error) string {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return ""
	}
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return eof
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return rst
	case errors.Is(err, syscall.ECONNREFUSED):
		return denied
	}
	return ending(err)
}

// ask sends a request that any listener answers, before an authentication too, after the handshake where there is one to do,
// and leaves it to a goroutine to wait for the answer.
func (g *guest) ask() {
	if g.pending != nil || g.end != "" {
		return
	}
	pending := make(chan string, 1)
	g.pending, g.shaken = pending, true
	c := &conn{Conn: g.stream}
	go func() {
		req := kmsg.NewPtrApiVersionsRequest()
		_ = g.tcp.SetDeadline(time.Time{})
		if shaking, ok := g.stream.(*tls.Conn); ok { // a time-out of a write would be for ever
			if err := shaking.Handshake(); err != nil {
				pending <- ends(err)
				return
			}
		}
		if _, end := c.exchange(req, 3*bound); end != "" {
			pending <- map[string]string{"EOF": eof, "reset": rst}[end]
			return
		}
		pending <- served
	}()
}

// answer is what becomes of a guest that asks, "" where that is nothing within a time.
func (g *guest) answer(within time.Duration) string {
	if g.end != "" {
		return g.end
	}
	g.ask()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case got := <-g.pending:
		g.pending = nil
		if got != served {
			g.end = got
		}
		return got
	case <-timer.C:
		return ""
	}
}

// look is what becomes of a guest that asks nothing, "" where that is nothing within a time.
func (g *guest) look(within time.Duration) string {
	if g.end != "" || g.pending != nil {
		return g.answer(within)
	}
	from := net.Conn(g.tcp)
	if g.shaken {
		from = g.stream
	}
	_ = g.tcp.SetReadDeadline(time.Now().Add(within))
	n, err := from.Read(make([]byte, 1))
	if n > 0 {
		return unasked
	}
	g.end = ends(err)
	return g.end
}

// leave ends the connection from the guest's side, in order.
func (g *guest) leave() {
	_ = g.tcp.Close()
	g.end = "left"
}

// abort ends it by a RST.
func (g *guest) abort() {
	_ = g.tcp.SetLinger(0)
	g.leave()
}

// names are those of guests, in order.
func names(guests []*guest) string {
	all := make([]string, len(guests))
	for i, g := range guests {
		all[i] = g.name
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// tapedConn keeps what is written to it and has nothing to read.
type tapedConn struct {
	net.Conn
	written []byte
}

func (c *tapedConn) Write(b []byte) (int, error) {
	c.written = append(c.written, b...)
	return len(b), nil
}

func (*tapedConn) Read([]byte) (int, error)         { return 0, io.EOF }
func (*tapedConn) Close() error                     { return nil }
func (*tapedConn) SetDeadline(time.Time) error      { return nil }
func (*tapedConn) SetWriteDeadline(time.Time) error { return nil }
