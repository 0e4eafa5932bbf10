package sockdiag

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func open(t *testing.T) *Conn {
	t.Helper()
	c, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 2 {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return c
}

func TestDumpShowsBothFamiliesOfAPort(t *testing.T) {
	c := open(t)
	l, err := net.Listen("tcp", "[::]:0")
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = l.Close() }()
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	for _, host := range []string{"127.0.0.1", "::1"} {
		conn, dialErr := net.Dial("tcp", netip.AddrPortFrom(netip.MustParseAddr(host), port).String())
		if dialErr != nil {
			t.Fatal(dialErr)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err = conn.Write([]byte("abc")); err != nil {
			t.Fatal(err)
		}
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = accepted.Close() }()
	raw, err := accepted.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var cookie uint64
	_ = raw.Control(func(fd uintptr) { cookie, _ = unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE) })

	connected, err := c.Dump(port, Connected())
	if err != nil || len(connected) != 2 {
		t.Fatalf("Dump(%d) = %v, %v, want two", port, connected, err)
	}
	four, found := 0, false
	for _, s := range connected {
		if s.Remote.Addr().Is4() && s.Local.Addr().Is4() {
			four++
		}
		if s.BytesIn != 3 || s.State.String() != "ESTAB" || s.Local.Port() != port || s.RTT <= 0 {
			t.Errorf("socket = %+v, want 3 bytes received", s)
		}
		found = found || s.Cookie == cookie && s.Inode != 0
	}
	if four != 1 || !found {
		t.Errorf("IPv4 sockets = %d, want 1; accepted one found by cookie %v, want true", four, found)
	}
	listeners, err := c.Dump(port, Set(Listen))
	if err != nil || len(listeners) != 1 {
		t.Fatalf("Dump(%d, LISTEN) = %v, %v, want one", port, listeners, err)
	}
	if s := listeners[0]; s.Queue != 1 || s.Backlog == 0 || s.Drops != 0 {
		t.Errorf("listener = %+v, want one connection in its queue", s)
	}
}

func TestDumpOfAClosedConnFails(t *testing.T) {
	c := open(t)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Dump(0, Connected()); err == nil || !strings.Contains(err.Error(), "dump sockets") {
		t.Errorf("Dump() = %v, want an error", err)
	}
}

// Whatever arrives, parse ends, and never reads beyond it.
func FuzzParse(f *testing.F) {
	f.Add([]byte{}, uint32(1))
	f.Add(make([]byte, 200), uint32(0))
	header := []byte{88, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0}
	f.Add(append(header, make([]byte, 72)...), uint32(1))
	f.Fuzz(func(t *testing.T, b []byte, seq uint32) {
		sockets, _, err := parse(nil, b, seq)
		if err != nil && len(sockets) > len(b)/unix.SizeofNlMsghdr {
			t.Errorf("%d sockets from %d bytes", len(sockets), len(b))
		}
	})
}
