package sockacct

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/internal/testenv"
)

// load loads a counter for the time of the test.
func load(tb testing.TB, o Options) *Counter {
	tb.Helper()
	testenv.NeedRoot(tb)
	c, err := Load(o)
	if err != nil {
		tb.Fatalf("Load(%+v) = %v", o, err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Errorf("Close() = %v", err)
		}
	})
	return c
}

// space is a network namespace of the test's own, with its loopback up.
type space struct {
	work   chan func()
	cookie uint64
}

func newSpace(tb testing.TB) *space {
	tb.Helper()
	testenv.NeedRoot(tb)
	s := &space{work: make(chan func())}
	ready := make(chan error, 1)
	go func() {
		runtime.LockOSThread() //nolint:forbidigo // never unlocked: the thread ends with the goroutine
		ready <- s.enter()
		for f := range s.work {
			f()
		}
	}()
	if err := <-ready; err != nil {
		tb.Fatalf("make a network namespace: %v", err)
	}
	tb.Cleanup(func() { close(s.work) })
	return s
}

func (s *space) enter() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	s.cookie, err = NetnsCookie()
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// within runs f in the namespace.
func (s *space) within(f func() error) error {
	result := make(chan error, 1)
	s.work <- func() { result <- f() }
	return <-result
}

func (s *space) sysctl(tb testing.TB, name, value string) {
	tb.Helper()
	err := s.within(func() error { return os.WriteFile("/proc/sys/net/"+name, []byte(value), 0) })
	if err != nil {
		tb.Fatalf("set %s: %v", name, err)
	}
}

// listen listens on address in the namespace for the time of the test.
func (s *space) listen(tb testing.TB, address string) (*net.TCPListener, uint16) {
	tb.Helper()
	var l net.Listener
	err := s.within(func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		tb.Fatalf("listen on %s: %v", address, err)
	}
	tb.Cleanup(func() { quit(l) })
	return l.(*net.TCPListener), uint16(l.Addr().(*net.TCPAddr).Port)
}

// socket makes a blocking TCP socket in the namespace.
func (s *space) socket(to netip.AddrPort) (int, error) {
	family := unix.AF_INET
	if to.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd := -1
	err := s.within(func() (err error) {
		fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		return err
	})
	return fd, err
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// connect connects a raw client; from may be the zero address.
func (s *space) connect(from netip.Addr, to netip.AddrPort) (int, error) {
	fd, err := s.socket(to)
	if err != nil {
		return -1, err
	}
	if from.IsValid() {
		err = unix.Bind(fd, sockaddr(netip.AddrPortFrom(from, 0)))
	}
	if err == nil {
		err = connectFD(fd, to)
	}
	if err != nil {
		closeFD(fd)
		return -1, fmt.Errorf("connect to %s: %w", to, err)
	}
	return fd, nil
}

func connectFD(fd int, to netip.AddrPort) error {
	err := unix.Connect(fd, sockaddr(to))
	if errors.Is(err, unix.EINTR) { // the connection goes on without us: wait for it
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
		for {
			if _, err = unix.Poll(p, -1); !errors.Is(err, unix.EINTR) {
				break
			}
		}
		var code int
		if code, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && code != 0 {
			err = unix.Errno(code)
		}
	}
	return err
}

func (s *space) mustConnect(tb testing.TB, to netip.AddrPort) int {
	tb.Helper()
	fd, err := s.connect(netip.Addr{}, to)
	if err != nil {
		tb.Fatal(err)
	}
	return fd
}

func write(tb testing.TB, fd int, b []byte) {
	tb.Helper()
	if n, err := unix.Write(fd, b); err != nil || n != len(b) {
		tb.Fatalf("write %d bytes = %d, %v", len(b), n, err)
	}
}

// closeFD and quit close what the kernel takes back in any case.
func closeFD(fd int) { _ = unix.Close(fd) }

func quit(c io.Closer) { _ = c.Close() }

func loopback(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)
}

func loopback6(port uint16) netip.AddrPort { return netip.AddrPortFrom(netip.IPv6Loopback(), port) }

func watch(tb testing.TB, c *Counter, s *space, port uint16, group uint32) {
	tb.Helper()
	if err := c.Watch(s.cookie, port, group); err != nil {
		tb.Fatal(err)
	}
}

func counts(tb testing.TB, c *Counter, s *space, port uint16) Port {
	tb.Helper()
	p, err := c.Port(s.cookie, port)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// eventually polls until ok says yes of what get returns.
func eventually[V any](tb testing.TB, what string, get func() V, ok func(V) bool) V {
	tb.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		v := get()
		if ok(v) {
			return v
		}
		if time.Now().After(deadline) {
			tb.Fatalf("%s: still %+v", what, v)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// becomes polls a port's counts.
func becomes(tb testing.TB, c *Counter, s *space, port uint16, what string, ok func(Port) bool) Port {
	tb.Helper()
	return eventually(tb, what, func() Port { return counts(tb, c, s, port) }, ok)
}

func noneLost(tb testing.TB, c *Counter) {
	tb.Helper()
	lost, err := c.Lost()
	if err != nil || len(lost) > 0 {
		tb.Errorf("Lost() = %v, %v, want nothing lost", lost, err)
	}
}

// allZero fails unless every gauge is back at zero.
func allZero(tb testing.TB, c *Counter, s *space, port uint16) {
	tb.Helper()
	becomes(tb, c, s, port, "all gauges return to zero", func(p Port) bool {
		return p.Established == 0 && p.TLS == 0 && p.Plaintext == 0 && p.Undecided == 0 && p.Unknown == 0 &&
			p.Gauge.Served == 0 && p.Gauge.ServedTLS == 0 && p.Gauge.ServedPlaintext == 0 && p.Opened+p.Seeded == p.Closed
	})
}
