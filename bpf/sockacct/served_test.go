package sockacct

import (
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// limited is a server with a limit of its own: one answer a connection. It refuses without a byte, and gives a slot back
// after it closed.
func limited(l net.Listener, limit int) *sync.WaitGroup {
	slots := make(chan struct{}, limit)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			select {
			case slots <- struct{}{}:
			default:
				quit(conn)
				continue
			}
			wg.Go(func() {
				_, _ = conn.Write([]byte("hello"))
				_ = conn.SetReadDeadline(time.Now().Add(time.Second)) // a client may have vanished
				_, _ = conn.Read(make([]byte, 1))                     // until the client has had enough
				quit(conn)
				<-slots
			})
		}
	})
	return &wg
}

func storm(s *space, port uint16, clients, each int, end func(fd int)) {
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for range each {
				to := loopback(port)
				if i%2 == 0 {
					to = loopback6(port)
				}
				fd, err := s.connect(to.Addr(), to)
				if err != nil {
					continue
				}
				_, _ = unix.Write(fd, clientHello)
				_, _ = unix.Read(fd, make([]byte, 8))
				end(fd)
			}
		})
	}
	wg.Wait()
}

func TestACorrectServerNeverServesMoreThanItsLimit(t *testing.T) {
	const limit = 5
	ends := map[string]func(fd int){
		"FIN": closeFD,
		"RST": func(fd int) {
			_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
			closeFD(fd)
		},
		"vanishes": func(fd int) { // without FIN or RST
			_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, 1)
			closeFD(fd)
		},
		"half-close": func(fd int) {
			_ = unix.Shutdown(fd, unix.SHUT_WR)
			_, _ = unix.Read(fd, make([]byte, 8))
			closeFD(fd)
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			c, s := load(t, Options{}), newSpace(t)
			l, port := s.listen(t, "[::]:0")
			watch(t, c, s, port, 0)
			server := limited(l, limit)
			storm(s, port, 60, 20, end)
			allZero(t, c, s, port)
			p := counts(t, c, s, port)
			if p.Gauge.ServedMax > limit || p.Gauge.ServedMax == 0 {
				t.Errorf("served_max = %d, want 1..%d", p.Gauge.ServedMax, limit)
			}
			t.Logf("mark %d, served %d of %d", p.Gauge.ServedMax, p.Gauge.ServedTotal, p.Opened)
			noneLost(t, c)
			quit(l)
			server.Wait()
		})
	}
}

// accepted opens a connection and serves it one byte.
func accepted(t *testing.T, s *space, l *net.TCPListener, port uint16) *net.TCPConn {
	t.Helper()
	fd := s.mustConnect(t, loopback(port))
	t.Cleanup(func() { closeFD(fd) })
	conn, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { quit(conn) })
	if _, err := conn.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Servers with a limit of one, each wrong in its own way: two connections are served for a moment.
func TestAServerThatCheatsIsCaught(t *testing.T) {
	for name, first := range map[string]func(t *testing.T, conn *net.TCPConn){
		"gives its slot back before it closes": func(*testing.T, *net.TCPConn) {},
		"a copy of the descriptor outlives close": func(t *testing.T, conn *net.TCPConn) {
			t.Helper()
			file, err := conn.File()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { quit(file) })
			quit(conn)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, s := load(t, Options{}), newSpace(t)
			l, port := s.listen(t, "127.0.0.1:0")
			watch(t, c, s, port, 0)
			first(t, accepted(t, s, l, port))
			accepted(t, s, l, port) // in the slot that is thought to be free
			becomes(t, c, s, port, "two were served at once", func(p Port) bool { return p.Gauge.ServedMax == 2 })
		})
	}
	t.Run("closes first, as it should", func(t *testing.T) {
		c, s := load(t, Options{}), newSpace(t)
		l, port := s.listen(t, "127.0.0.1:0")
		watch(t, c, s, port, 0)
		quit(accepted(t, s, l, port))
		half := accepted(t, s, l, port)
		if err := half.CloseWrite(); err != nil { // a shutdown ends it as well
			t.Fatal(err)
		}
		accepted(t, s, l, port)
		becomes(t, c, s, port, "one was served at once", func(p Port) bool { return p.Gauge.ServedTotal == 3 })
		if p := counts(t, c, s, port); p.Gauge.ServedMax != 1 {
			t.Errorf("served_max = %d, want 1", p.Gauge.ServedMax)
		}
	})
}

func TestAGroupHasAMarkOfItsOwn(t *testing.T) {
	c, s := load(t, Options{}), newSpace(t)
	la, a := s.listen(t, "127.0.0.1:0")
	lb, b := s.listen(t, "127.0.0.1:0")
	lo, other := s.listen(t, "127.0.0.1:0")
	watch(t, c, s, a, 7)
	watch(t, c, s, b, 7)
	watch(t, c, s, other, 8)
	accepted(t, s, lo, other)
	first := accepted(t, s, la, a)
	quit(first)
	accepted(t, s, lb, b)
	g := group(t, c, 7)
	if g.ServedMax != 1 || g.Served != 1 || g.ServedTotal != 2 {
		t.Errorf("group = %+v, want one at a time: two in all", g)
	}
	accepted(t, s, la, a)
	if g = group(t, c, 7); g.ServedMax != 2 || g.Served != 2 {
		t.Errorf("group = %+v, want two at once", g)
	}
	for _, port := range []uint16{a, b} {
		if p := counts(t, c, s, port); p.Gauge.ServedMax != 1 || p.Group != 7 {
			t.Errorf("port %d = %+v, want a mark of 1 in group 7", port, p.Gauge)
		}
	}
}

func group(t *testing.T, c *Counter, id uint32) Gauge {
	t.Helper()
	g, err := c.Group(id)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestResetMarksStartsFromWhatIsServedNow(t *testing.T) {
	c, s := load(t, Options{}), newSpace(t)
	l, port := s.listen(t, "127.0.0.1:0")
	watch(t, c, s, port, 3)
	first := accepted(t, s, l, port)
	accepted(t, s, l, port)
	quit(first)
	if p := counts(t, c, s, port); p.Gauge.ServedMax != 2 || p.Gauge.Served != 1 {
		t.Fatalf("gauge = %+v, want a mark of 2, one served", p.Gauge)
	}
	if err := c.ResetMarks(s.cookie, port); err != nil {
		t.Fatal(err)
	}
	p, g := counts(t, c, s, port), group(t, c, 3)
	if p.Gauge.ServedMax != 1 || g.ServedMax != 1 || p.Gauge.ServedTotal != 2 {
		t.Errorf("after the reset port = %+v, group = %+v, want marks of 1", p.Gauge, g)
	}
}
