package kernelsource

import (
	"context"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/internal/kernel"
	"github.com/brokerlab/brokerlab/internal/testenv"
)

// node is a network namespace of the test's own.
type node struct {
	work chan func()
	file *os.File
}

func newNode(t *testing.T) *node {
	t.Helper()
	testenv.NeedRoot(t)
	n := &node{work: make(chan func())}
	ready := make(chan error, 1)
	go func() {
		runtime.LockOSThread() //nolint:forbidigo // never unlocked: the thread ends with the goroutine
		ready <- n.enter()
		for f := range n.work {
			f()
		}
	}()
	if err := <-ready; err != nil {
		t.Fatalf("make a network namespace: %v", err)
	}
	t.Cleanup(func() {
		close(n.work)
		closes(t, n.file)
	})
	return n
}

func (n *node) enter() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	file, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	n.file = file
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// do runs f in the namespace; on a nil node, where the process is.
func (n *node) do(f func() error) error {
	if n == nil {
		return f()
	}
	result := make(chan error, 1)
	n.work <- func() { result <- f() }
	return <-result
}

// bind makes a listener on every address.
func (n *node) bind(t *testing.T) (l *net.TCPListener, port uint16) {
	t.Helper()
	return n.bindTo(t, ":0")
}

func (n *node) bindTo(t *testing.T, address string) (l *net.TCPListener, port uint16) {
	t.Helper()
	var bound net.Listener
	err := n.do(func() (err error) {
		lc := net.ListenConfig{}
		bound, err = lc.Listen(t.Context(), "tcp", address)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	l, _ = bound.(*net.TCPListener)
	t.Cleanup(func() { _ = l.Close() })
	addr, _ := l.Addr().(*net.TCPAddr)
	return l, uint16(addr.Port)
}

// join connects a client and lets the server accept it.
func (n *node) join(t *testing.T, l *net.TCPListener) (client net.Conn, server *net.TCPConn) {
	t.Helper()
	addr, _ := l.Addr().(*net.TCPAddr)
	err := n.do(func() (err error) {
		d := net.Dialer{}
		client, err = d.DialContext(t.Context(), "tcp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(addr.Port)).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	server, err = l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return client, server
}

func says(t *testing.T, conn net.Conn, what string) {
	t.Helper()
	if _, err := conn.Write([]byte(what)); err != nil {
		t.Fatal(err)
	}
}

const (
	hello    = "\x16\x03\x01\x02\x00\x01"
	request0 = "\x00\x00\x00\x14\x00\x12"
)

func closes(t *testing.T, c interface{ Close() error }) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func localSource(t *testing.T, mode Mode, without ...kernel.Feature) broker.KernelSource {
	t.Helper()
	set := kernel.Set{}
	for _, f := range without {
		set[f] = true
	}
	s, err := Local(mode, Options{Without: set})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closes(t, s) })
	return s
}

func watches(t *testing.T, s broker.KernelSource, ports ...uint16) {
	t.Helper()
	if err := s.Watch(ports); err != nil {
		t.Fatal(err)
	}
}

func reports(t *testing.T, s broker.KernelSource) broker.KernelReport {
	t.Helper()
	r, err := s.Report(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// becomes polls reports until one is right.
func becomes(t *testing.T, s broker.KernelSource, what string, right func(broker.KernelReport) bool) broker.KernelReport {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		r, err := s.Report(t.Context())
		if err == nil && right(r) {
			return r
		}
		if ctx.Err() != nil {
			t.Fatalf("%s: still %+v, %v", what, r, err)
		}
		<-time.After(5 * time.Millisecond)
	}
}
