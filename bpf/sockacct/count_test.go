package sockacct

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// echo answers the first byte of each connection and waits for its end, until the listener closes.
func echo(l net.Listener) *sync.WaitGroup {
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer quit(conn)
				b := make([]byte, 64)
				for {
					if _, err := conn.Read(b); err != nil {
						return
					}
					if _, err := conn.Write(b[:1]); err != nil {
						return
					}
				}
			})
		}
	})
	return &wg
}

// visit makes one short connection: connect, one byte each way, close.
func (s *space) visit(from netip.Addr, to netip.AddrPort) error {
	fd, err := s.connect(from, to)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	if _, err = unix.Write(fd, apiVersions); err != nil {
		return err
	}
	_, err = unix.Read(fd, make([]byte, 1))
	return err
}

// visits makes n short connections from workers goroutines.
func visits(tb testing.TB, s *space, n, workers int, to netip.AddrPort) {
	tb.Helper()
	var left atomic.Int64
	left.Store(int64(n))
	errs := make(chan error, workers)
	for range workers {
		go func() {
			for left.Add(-1) >= 0 {
				if err := s.visit(netip.Addr{}, to); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range workers {
		if err := <-errs; err != nil {
			tb.Fatal(err)
		}
	}
}

func TestShortConnectionsAreAllCounted(t *testing.T) {
	c, s := load(t, Options{}), newSpace(t)
	l, port := s.listen(t, "[::]:0")
	watch(t, c, s, port, 1)
	server := echo(l)
	const n = 3000
	visits(t, s, n/2, 8, loopback(port))
	visits(t, s, n/2, 8, loopback6(port))
	allZero(t, c, s, port)
	p := counts(t, c, s, port)
	if p.Opened != n || p.Closed != n || p.Gauge.ServedTotal != n {
		t.Errorf("opened %d, closed %d, served %d, want %d each", p.Opened, p.Closed, p.Gauge.ServedTotal, n)
	}
	if want := uint64(n * (len(apiVersions) + 1)); p.ClosedBytesIn != want { // the kernel counts a FIN as a byte
		t.Errorf("bytes in = %d, want %d", p.ClosedBytesIn, want)
	}
	if p.ClosedBytesOut != 2*n {
		t.Errorf("bytes out = %d, want %d", p.ClosedBytesOut, 2*n)
	}
	drift, err := c.Drift(s.cookie, s.within)
	if err != nil || len(drift) > 0 {
		t.Errorf("Drift() = %v, %v, want none", drift, err)
	}
	noneLost(t, c)
	quit(l)
	server.Wait()
}

func TestConnectionsInTheAcceptQueueAreEstablished(t *testing.T) {
	c, s := load(t, Options{}), newSpace(t)
	l, port := s.listen(t, "127.0.0.1:0")
	watch(t, c, s, port, 0)
	for range 7 {
		fd := s.mustConnect(t, loopback(port))
		t.Cleanup(func() { closeFD(fd) })
	}
	becomes(t, c, s, port, "seven established, none served", func(p Port) bool {
		return p.Established == 7 && p.Opened == 7 && p.Gauge.Served == 0
	})
	quit(l) // resets what was never accepted
	allZero(t, c, s, port)
}

func TestWhatTheServerHasClosedIsClosingUntilTheClientClosesToo(t *testing.T) {
	c, s := load(t, Options{}), newSpace(t)
	l, port := s.listen(t, "127.0.0.1:0")
	watch(t, c, s, port, 0)
	client := s.mustConnect(t, loopback(port))
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if p := counts(t, c, s, port); p.Established != 1 || p.Closing != 0 {
		t.Errorf("open = %+v, want one connection that is not closing", p)
	}
	quit(conn)
	becomes(t, c, s, port, "closed by the server", func(p Port) bool { return p.Established == 1 && p.Closing == 1 })
	closeFD(client)
	becomes(t, c, s, port, "closed by both", func(p Port) bool { return p.Established == 0 && p.Closing == 0 })
	noneLost(t, c)
}

func TestOtherPortsAndOtherNamespacesAreNotCounted(t *testing.T) {
	c, s, other := load(t, Options{}), newSpace(t), newSpace(t)
	_, port := s.listen(t, "127.0.0.1:0")
	watch(t, c, s, port, 0)
	other.listen(t, fmt.Sprintf("127.0.0.1:%d", port))
	_, unwatched := s.listen(t, "127.0.0.1:0")
	for _, fd := range []int{
		other.mustConnect(t, loopback(port)), s.mustConnect(t, loopback(unwatched)), s.mustConnect(t, loopback(port)),
	} {
		t.Cleanup(func() { closeFD(fd) })
	}
	becomes(t, c, s, port, "one connection", func(p Port) bool { return p.Established == 1 && p.Opened == 1 })
	if _, err := c.Port(other.cookie, port); !errors.Is(err, ErrNotWatched) {
		t.Errorf("Port(other namespace) = %v, want ErrNotWatched", err)
	}
	if ports, err := c.Ports(); err != nil || len(ports) != 1 {
		t.Errorf("Ports() = %v, %v, want one", ports, err)
	}
}

func TestVanishedClientsLeaveNothing(t *testing.T) {
	c, s := load(t, Options{}), newSpace(t)
	l, port := s.listen(t, "127.0.0.1:0")
	watch(t, c, s, port, 0)
	const n = 50
	var fds []int
	for range n {
		fd := s.mustConnect(t, loopback(port))
		write(t, fd, clientHello)
		fds = append(fds, fd)
	}
	var conns []net.Conn
	for range n {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, fd := range fds { // closed in repair mode, a socket sends neither FIN nor RST
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, 1); err != nil {
			t.Fatal(err)
		}
		closeFD(fd)
	}
	if p := counts(t, c, s, port); p.Established != n {
		t.Errorf("established = %d, want %d: nobody told the server", p.Established, n)
	}
	for _, conn := range conns {
		_, _ = conn.Write([]byte{1}) // answered by a reset
	}
	becomes(t, c, s, port, "resets end them", func(p Port) bool { return p.Established == 0 })
	for _, conn := range conns {
		quit(conn)
	}
	allZero(t, c, s, port)
	noneLost(t, c)
}

func TestIPv4ClientsOfADualStackSocketAreShownAsIPv4(t *testing.T) {
	c, s := load(t, Options{}), newSpace(t)
	_, port := s.listen(t, "[::]:0")
	watch(t, c, s, port, 0)
	for i := range 10 {
		to := loopback6(port)
		if i%2 == 0 {
			to = loopback(port)
		}
		fd := s.mustConnect(t, to)
		t.Cleanup(func() { closeFD(fd) })
	}
	becomes(t, c, s, port, "ten connections", func(p Port) bool { return p.Established == 10 })
	sources, err := c.Sources()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(sources, func(a, b Source) int { return a.Addr.Compare(b.Addr) })
	want := []Source{
		{s.cookie, port, netip.MustParseAddr("127.0.0.1"), 5},
		{s.cookie, port, netip.IPv6Loopback(), 5},
	}
	if !slices.Equal(sources, want) {
		t.Errorf("Sources() = %v, want %v", sources, want)
	}
	sockets, err := c.Sockets(s.within)
	if err != nil {
		t.Fatal(err)
	}
	v4 := 0
	for _, k := range sockets {
		if k.Remote.Addr().Is4() && k.Local.Addr().Is4() {
			v4++
		}
	}
	if len(sockets) != 10 || v4 != 5 {
		t.Errorf("Sockets() = %d of which %d IPv4, want 10 and 5", len(sockets), v4)
	}
}

func TestSocketsAreJoinedByCookie(t *testing.T) {
	c, s := load(t, Options{}), newSpace(t)
	l, port := s.listen(t, "127.0.0.1:0")
	watch(t, c, s, port, 0)
	fd := s.mustConnect(t, loopback(port))
	defer closeFD(fd)
	write(t, fd, apiVersions)
	conn, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	defer quit(conn)
	_, _ = conn.Write([]byte("answer"))
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var cookie uint64
	_ = raw.Control(func(fd uintptr) { cookie, err = unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE) })
	if err != nil {
		t.Fatal(err)
	}
	list := func() Socket {
		sockets, err := c.Sockets(s.within)
		if err != nil || len(sockets) != 1 {
			t.Fatalf("Sockets() = %v, %v, want one", sockets, err)
		}
		return sockets[0]
	}
	k := eventually(t, "the answer is acknowledged", list, func(k Socket) bool { return k.BytesOut == 6 })
	if k.Cookie != cookie {
		t.Errorf("cookie = %d, want the socket's own %d", k.Cookie, cookie)
	}
	if k.Remote.String() != conn.RemoteAddr().String() || k.Local.String() != conn.LocalAddr().String() {
		t.Errorf("socket = %s from %s, want %s from %s", k.Local, k.Remote, conn.LocalAddr(), conn.RemoteAddr())
	}
	if k.BytesIn != uint64(len(apiVersions)) || k.Verdict != Plaintext || !k.Served || !k.Counted || k.Seeded || k.RTT <= 0 {
		t.Errorf("socket = %+v, want %d plaintext bytes, served, with a round-trip time", k, len(apiVersions))
	}
}

func TestAddressesWithoutConnectionsAreSweptAndNoneIsLost(t *testing.T) {
	c, s := load(t, Options{}), newSpace(t)
	l, port := s.listen(t, "127.0.0.1:0")
	watch(t, c, s, port, 0)
	server := echo(l)
	const addresses = 40
	from := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{127, 1, 0, byte(i)}) }
	for i := range addresses {
		if err := s.visit(from(i), loopback(port)); err != nil {
			t.Fatal(err)
		}
	}
	allZero(t, c, s, port)
	if sources, err := c.Sources(); err != nil || len(sources) != 0 {
		t.Errorf("Sources() = %v, %v, want none", sources, err)
	}
	if n, err := c.Sweep(); err != nil || n != addresses {
		t.Errorf("Sweep() = %d, %v, want %d", n, err, addresses)
	}
	if n, err := c.Sweep(); err != nil || n != 0 {
		t.Errorf("second Sweep() = %d, %v, want 0", n, err)
	}

	// Beside clients that come and go on the same few addresses, sweeping forgets none that stays.
	stop := make(chan struct{})
	swept := make(chan int)
	go func() {
		total := 0
		for {
			select {
			case <-stop:
				swept <- total
				return
			default:
				n, err := c.Sweep()
				if err != nil {
					t.Error(err)
				}
				total += n
			}
		}
	}()
	var wg sync.WaitGroup
	var staying [4]int
	for w := range 4 {
		wg.Go(func() {
			for i := range 400 {
				if err := s.visit(from(i%4), loopback(port)); err != nil {
					t.Error(err)
					return
				}
			}
			fd, err := s.connect(from(w), loopback(port))
			if err != nil {
				t.Error(err)
			}
			staying[w] = fd
		})
	}
	wg.Wait()
	close(stop)
	t.Logf("swept %d times beside them", <-swept)
	becomes(t, c, s, port, "those that stay", func(p Port) bool { return p.Established == 4 })
	sources, err := c.Sources()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range sources {
		if k.Count != 1 {
			t.Errorf("source %s = %d, want 1", k.Addr, k.Count)
		}
	}
	if len(sources) != 4 {
		t.Errorf("Sources() = %v, want 4", sources)
	}
	for _, fd := range staying {
		closeFD(fd)
	}
	allZero(t, c, s, port)
	if sources, _ := c.Sources(); len(sources) != 0 {
		t.Errorf("Sources() = %v at the end, want none", sources)
	}
	noneLost(t, c)
	quit(l)
	server.Wait()
}

func TestAddressesThatFindNoRoomAreSaidToBeLost(t *testing.T) {
	c, s := load(t, Options{MaxSources: 4}), newSpace(t)
	_, port := s.listen(t, "127.0.0.1:0")
	watch(t, c, s, port, 0)
	var fds []int
	for i := range 40 {
		fd, err := s.connect(netip.AddrFrom4([4]byte{127, 2, 0, byte(i)}), loopback(port))
		if err != nil {
			t.Fatal(err)
		}
		fds = append(fds, fd)
	}
	becomes(t, c, s, port, "all are established all the same", func(p Port) bool { return p.Established == 40 })
	lost, err := c.Lost()
	if err != nil || lost["sources"] == 0 {
		t.Errorf("Lost() = %v, %v, want some sources", lost, err)
	}
	for _, fd := range fds {
		closeFD(fd)
	}
}

func TestWatchAgainKeepsCountsAndForgetWaitsForConnections(t *testing.T) {
	c, s := load(t, Options{}), newSpace(t)
	l, port := s.listen(t, "127.0.0.1:0")
	watch(t, c, s, port, 0)
	fd := s.mustConnect(t, loopback(port))
	becomes(t, c, s, port, "one", func(p Port) bool { return p.Established == 1 })
	watch(t, c, s, port, 0)
	if p := counts(t, c, s, port); p.Opened != 1 {
		t.Errorf("opened = %d after a second Watch, want 1", p.Opened)
	}
	if err := c.Forget(s.cookie, port); !errors.Is(err, ErrBusy) {
		t.Errorf("Forget() = %v, want ErrBusy", err)
	}
	closeFD(fd)
	quit(l)
	allZero(t, c, s, port)
	for range 2 {
		if err := c.Forget(s.cookie, port); err != nil {
			t.Errorf("Forget() = %v", err)
		}
	}
	if _, err := c.Port(s.cookie, port); !errors.Is(err, ErrNotWatched) {
		t.Errorf("Port() = %v, want ErrNotWatched", err)
	}
	if err := c.ResetMarks(s.cookie, port); !errors.Is(err, ErrNotWatched) {
		t.Errorf("ResetMarks() = %v, want ErrNotWatched", err)
	}
}

func TestMorePortsThanThereIsRoomForAreRefused(t *testing.T) {
	c, s := load(t, Options{MaxPorts: 2}), newSpace(t)
	watch(t, c, s, 1, 0)
	watch(t, c, s, 2, 0)
	if err := c.Watch(s.cookie, 3, 0); err == nil {
		t.Error("Watch(third of two) = nil, want an error")
	}
}

// ss counts the server's ends that the kernel has, as ss(8) would.
func (s *space) ss(t *testing.T, port uint16) int64 {
	t.Helper()
	var n int64
	err := s.within(func() error {
		all, err := netlink.SocketDiagTCP(unix.AF_INET)
		for _, k := range all {
			if k.ID.SourcePort == port && k.State == netlink.TCP_ESTABLISHED {
				n++
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSeedingUnderLoadLosesNone(t *testing.T) {
	const existing = 500
	for round := range 4 {
		t.Run(strconv.Itoa(round), func(t *testing.T) {
			s := newSpace(t)
			l, port := s.listen(t, "127.0.0.1:0")
			server := echo(l)
			var fds []int
			for i := range existing {
				fd := s.mustConnect(t, loopback(port))
				if i%2 == 0 { // these have been served
					write(t, fd, apiVersions)
					if _, err := unix.Read(fd, make([]byte, 1)); err != nil {
						t.Fatal(err)
					}
				}
				fds = append(fds, fd)
			}
			stop := make(chan struct{})
			var churn sync.WaitGroup
			for range 3 {
				churn.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
							if err := s.visit(netip.Addr{}, loopback(port)); err != nil {
								t.Error(err)
								return
							}
						}
					}
				})
			}
			c := load(t, Options{})
			if err := c.Seeding(); err != nil {
				close(stop)
				t.Skipf("no seeding here: %v", err)
			}
			watch(t, c, s, port, 0)
			if err := c.Seed(s.within); err != nil {
				t.Error(err)
			}
			seen := counts(t, c, s, port)
			close(stop)
			churn.Wait()
			if lost, err := c.Lost(); err == nil && seen.Seeded == 0 && lost["connections"] > 0 {
				t.Skip("no seeding here: the kernel does not let an iterator follow a socket")
			}
			p := becomes(t, c, s, port, "what was there and nothing else", func(p Port) bool {
				return p.Established == existing && p.Gauge.Served == existing/2
			})
			if ss := s.ss(t, port); ss != p.Established {
				t.Errorf("established = %d, ss has %d", p.Established, ss)
			}
			if p.Seeded < existing {
				t.Errorf("seeded = %d, want at least %d", p.Seeded, existing)
			}
			t.Logf("seeded %d, of which %d were passing by; %d opened during seeding", p.Seeded, p.Seeded-existing, seen.Opened)
			if p.Unknown != existing/2 || p.Undecided != existing/2 {
				t.Errorf("unknown %d, undecided %d, want %d each", p.Unknown, p.Undecided, existing/2)
			}
			// One that had said nothing yet still gets its verdict.
			write(t, fds[1], clientHello)
			becomes(t, c, s, port, "a seeded connection speaks TLS", func(p Port) bool { return p.TLS == 1 })
			if err := c.Seed(s.within); err != nil {
				t.Error(err)
			}
			if again := counts(t, c, s, port); again.Seeded != p.Seeded {
				t.Errorf("seeded = %d after a second Seed, want %d as before", again.Seeded, p.Seeded)
			}
			for _, fd := range fds {
				closeFD(fd)
			}
			allZero(t, c, s, port)
			noneLost(t, c)
			quit(l)
			server.Wait()
		})
	}
}

func TestWithoutSeedingOldConnectionsAreNotCountedAndNeverSubtracted(t *testing.T) {
	s := newSpace(t)
	l, port := s.listen(t, "127.0.0.1:0")
	server := echo(l)
	old := s.mustConnect(t, loopback(port))
	c := load(t, Options{NoSeeding: true, NoListing: true})
	watch(t, c, s, port, 0)
	if err := c.Seed(s.within); !errors.Is(err, ErrDisabled) {
		t.Errorf("Seed() = %v, want ErrDisabled", err)
	}
	if _, err := c.Sockets(s.within); !errors.Is(err, ErrDisabled) {
		t.Errorf("Sockets() = %v, want ErrDisabled", err)
	}
	young := s.mustConnect(t, loopback(port))
	write(t, old, apiVersions)
	write(t, young, apiVersions)
	becomes(t, c, s, port, "the young one", func(p Port) bool { return p.Established == 1 && p.Plaintext == 1 && p.Gauge.Served == 1 })
	closeFD(old)
	closeFD(young)
	quit(l)
	server.Wait()
	becomes(t, c, s, port, "one closed", func(p Port) bool { return p.Closed == 1 })
	allZero(t, c, s, port)
}

func TestListingShowsWhatIsNotCounted(t *testing.T) {
	s := newSpace(t)
	_, port := s.listen(t, "127.0.0.1:0")
	defer closeFD(s.mustConnect(t, loopback(port)))
	c := load(t, Options{NoSeeding: true})
	watch(t, c, s, port, 0)
	sockets, err := c.Sockets(s.within)
	if err != nil || len(sockets) != 1 {
		t.Fatalf("Sockets() = %v, %v, want one", sockets, err)
	}
	if k := sockets[0]; k.Counted || k.Verdict != Unknown || k.Cookie == 0 || k.Remote.Port() == 0 {
		t.Errorf("socket = %+v, want one that is not counted", k)
	}
}

func TestCloseDetachesEverything(t *testing.T) {
	s := newSpace(t)
	_, port := s.listen(t, "127.0.0.1:0")
	before, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	c := load(t, Options{})
	watch(t, c, s, port, 0)
	for range 2 { // the second time there is nothing left to do
		if err = c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	after, err := os.ReadDir("/proc/self/fd")
	if err != nil || len(after) > len(before) {
		t.Errorf("%d open files, want the %d from before, %v", len(after), len(before), err)
	}
}

func TestObjectIsDualLicensed(t *testing.T) {
	spec, err := loadSockacct()
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range spec.Programs {
		if p.License != "Dual BSD/GPL" {
			t.Errorf("license of %s = %q", name, p.License)
		}
	}
}

func TestCgroup2IsFoundInMountinfo(t *testing.T) {
	for _, tt := range []struct {
		line, dir, root string
		ok              bool
	}{
		{"30 24 0:27 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 none rw", "/sys/fs/cgroup/unified", "/", true},
		{`31 24 0:27 /a\040b /mnt/c\134d rw shared:1 - cgroup2 none rw`, `/mnt/c\d`, "/a b", true},
		{"32 24 0:28 / /sys/fs/cgroup/cpu rw - cgroup none rw,cpu", "", "", false},
		{"33 24 0:28 / /mnt/x - cgroup2", "", "", false},
		{"x - cgroup2 y z", "", "", false},
		{"", "", "", false},
	} {
		dir, root, ok := cgroup2Mount(tt.line)
		if dir != tt.dir || root != tt.root || ok != tt.ok {
			t.Errorf("cgroup2Mount(%q) = %q, %q, %v, want %q, %q, %v", tt.line, dir, root, ok, tt.dir, tt.root, tt.ok)
		}
	}
}
