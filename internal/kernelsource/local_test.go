package kernelsource

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/bpf/sockacct"
	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/internal/kernel"
	"github.com/brokerlab/brokerlab/internal/testenv"
)

func needFull(t *testing.T) {
	t.Helper()
	testenv.NeedRoot(t)
	if err := kernel.Require(t.Context(), kernel.Accounting, nil); err != nil {
		t.Skip(err)
	}
}

func TestABrokersPortsAreCountedExactlyAsOneGroup(t *testing.T) {
	needFull(t)
	s := localSource(t, Require)
	var here *node
	la, a := here.bind(t)
	lb, b := here.bind(t)
	watches(t, s, b, a)
	for range 2 { // a second time changes nothing
		watches(t, s, a)
	}
	c1, s1 := here.join(t, la)
	c2, s2 := here.join(t, lb)
	_, _ = here.join(t, lb)
	says(t, c1, hello)
	says(t, c2, request0)
	says(t, s1, "answer")
	says(t, s2, "answer")
	r := becomes(t, s, "one TLS, one plaintext, one undecided", func(r broker.KernelReport) bool {
		return r.Group.TLS == 1 && r.Group.Plaintext == 1 && r.Group.Undecided == 1 && r.Group.Served == 2
	})
	if r.Mode != broker.KernelModeFull || r.Exactness != broker.KernelExact || r.Why != "" || len(r.Lost) != 0 {
		t.Errorf("report = %s, %s, %q, lost %v, want full and exact", r.Mode, r.Exactness, r.Why, r.Lost)
	}
	if len(r.Ports) != 2 || r.Ports[0].Port > r.Ports[1].Port {
		t.Fatalf("ports = %+v, want two in order", r.Ports)
	}
	if r.Group.ServedMax != 2 || r.Ports[0].ServedMax != 1 || r.Group.ServedTLSMax != 1 || r.Group.Established != 3 {
		t.Errorf("group = %+v, want a mark of two over three", r.Group)
	}
	for _, p := range r.Ports {
		if p.Backlog == 0 || p.AcceptQueue != 0 || len(p.Sources) != 1 || p.Sources[0].Count != p.Established {
			t.Errorf("port = %+v, want a backlog, nothing queued, one source", p)
		}
		if p.BytesIn != 6 {
			t.Errorf("port %d: %d bytes in, want 6", p.Port, p.BytesIn)
		}
	}
	sockets, err := s.Sockets(t.Context(), a)
	if err != nil || len(sockets) != 1 {
		t.Fatalf("Sockets() = %v, %v, want one", sockets, err)
	}
	if k := sockets[0]; k.Protocol != "tls" || k.State != "ESTAB" || k.BytesIn != 6 || k.Cookie != cookieOf(t, s1) ||
		k.Remote.String() != c1.LocalAddr().String() {
		t.Errorf("socket = %+v, want the client %s", k, c1.LocalAddr())
	}
	if _, err := s.Sockets(t.Context(), 1); err == nil {
		t.Error("Sockets(port that is not watched) = nil error")
	}
}

func cookieOf(t *testing.T, conn *net.TCPConn) uint64 {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var cookie uint64
	err = raw.Control(func(fd uintptr) { cookie, _ = unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_COOKIE) })
	if err != nil {
		t.Fatal(err)
	}
	return cookie
}

func TestConnectionsFromBeforeAreSeeded(t *testing.T) {
	needFull(t)
	if err := kernel.Require(t.Context(), kernel.Seeding, nil); err != nil {
		t.Skip(err)
	}
	var here *node
	l, port := here.bind(t)
	here.join(t, l)
	s := localSource(t, Require)
	watches(t, s, port)
	if r := reports(t, s); r.Ports[0].Established != 1 || r.Ports[0].Seeded != 1 || r.Exactness != broker.KernelExact {
		t.Errorf("report = %+v, want one seeded connection, exact", r)
	}
}

func TestWithoutSeedingTheReportSaysWhatIsMissing(t *testing.T) {
	needFull(t)
	var here *node
	l, port := here.bind(t)
	here.join(t, l)
	for name, without := range map[string][]kernel.Feature{
		"with listing":    {kernel.Seeding},
		"without listing": {kernel.Seeding, kernel.Listing},
	} {
		t.Run(name, func(t *testing.T) {
			s := localSource(t, Require, without...)
			watches(t, s, port)
			r := reports(t, s)
			if r.Mode != broker.KernelModeFull || r.Exactness != broker.KernelLowerBound {
				t.Errorf("report = %s, %s, want full, lower bound", r.Mode, r.Exactness)
			}
			if !strings.Contains(r.Why, "1 connections were there before") {
				t.Errorf("why = %q, want it to name the connection from before", r.Why)
			}
			if sockets, err := s.Sockets(t.Context(), port); err != nil || len(sockets) != 1 {
				t.Errorf("Sockets() = %v, %v, want the connection all the same", sockets, err)
			}
		})
	}
	// A broker watches before it listens: nothing can be missing.
	s := localSource(t, Require, kernel.Seeding)
	_, fresh := here.bind(t)
	watches(t, s, fresh)
	if r := reports(t, s); r.Exactness != broker.KernelExact {
		t.Errorf("report = %s (%s), want exact", r.Exactness, r.Why)
	}
}

func TestForcedOffAccountingFallsBackToTheSocketTable(t *testing.T) {
	s := localSource(t, Auto, kernel.Accounting)
	pollsTheSocketTable(t, s, "forced off")
	if _, err := Local(Require, Options{Without: kernel.Set{kernel.BPF: true}}); err == nil || !strings.Contains(err.Error(), "forced off") {
		t.Errorf("Local(require) without BPF = %v, want an error that says so", err)
	}
	if _, err := Local(Auto, Options{Without: kernel.Set{kernel.BPF: true, kernel.SockDiag: true}}); err == nil {
		t.Error("Local(auto) without anything = nil error")
	}
}

func pollsTheSocketTable(t *testing.T, s broker.KernelSource, why string) {
	t.Helper()
	var here *node
	l, port := here.bind(t)
	here.join(t, l)
	watches(t, s, port)
	c2, s2 := here.join(t, l)
	says(t, c2, hello)
	r := becomes(t, s, "two", func(r broker.KernelReport) bool { return r.Ports[0].Established == 2 && r.Ports[0].BytesIn == 6 })
	if r.Mode != broker.KernelModeSockDiag || r.Exactness != broker.KernelLowerBound || !strings.Contains(r.Why, why) {
		t.Errorf("report = %s, %s, %q, want sock_diag, a lower bound, because %s", r.Mode, r.Exactness, r.Why, why)
	}
	p := r.Ports[0]
	if p.Seeded != 1 || p.Opened != 1 || p.Unknown != 2 || p.TLS != 0 || p.ServedMax != 0 || p.Backlog == 0 {
		t.Errorf("port = %+v, want one seeded, one opened, none of them known", p)
	}
	if len(p.Sources) != 1 || p.Sources[0].Count != 2 || !p.Sources[0].Addr.Is4() {
		t.Errorf("sources = %v, want two from 127.0.0.1", p.Sources)
	}
	sockets, err := s.Sockets(t.Context(), port)
	if err != nil || len(sockets) != 2 || sockets[0].Protocol != "unknown" || sockets[0].State != "ESTAB" {
		t.Errorf("Sockets() = %v, %v, want two", sockets, err)
	}
	closes(t, c2)
	closes(t, s2)
	becomes(t, s, "one closed", func(r broker.KernelReport) bool {
		return r.Ports[0].Established == 1 && r.Ports[0].Closed == 1 && r.Ports[0].BytesIn >= 6
	})
}

// unprivilegedEnv marks the copy of this test that has no privileges.
const unprivilegedEnv = "KERNELSOURCE_TEST_UNPRIVILEGED"

func TestWithoutPrivilegesTheSocketTableIsPolled(t *testing.T) {
	if os.Getenv(unprivilegedEnv) != "" {
		s := localSource(t, Auto)
		pollsTheSocketTable(t, s, "CAP_BPF")
		if _, err := Local(Require, Options{}); err == nil {
			t.Error("Local(require) = nil error without privileges")
		}
		return
	}
	testenv.NeedRoot(t)
	c := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	c.Dir = "/"
	c.Env = []string{unprivilegedEnv + "=1"}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as user 65534: %v\n%s", err, out)
	}
}

func TestDriftIsSaidInTheReport(t *testing.T) {
	needFull(t)
	s := localSource(t, Require)
	var here *node
	l, port := here.bind(t)
	watches(t, s, port)
	here.join(t, l)
	becomes(t, s, "one", func(r broker.KernelReport) bool { return r.Group.Established == 1 })
	v := s.(*local).view
	v.hub.audit()
	if r := reports(t, s); r.Exactness != broker.KernelExact || len(r.Lost) > 0 {
		t.Errorf("after an audit = %s, lost %v, want nothing found", r.Exactness, r.Lost)
	}
	v.setDrift([]sockacct.Drift{{Port: port, Established: 3, Listed: 1}, {Port: 1, Established: 9}})
	r := reports(t, s)
	if r.Lost["drift"] != 2 || r.Exactness != broker.KernelLowerBound || !strings.Contains(r.Why, "differ by 2 for good") {
		t.Errorf("report = %s (%s), lost %v, want a drift of 2", r.Exactness, r.Why, r.Lost)
	}
}

func TestTheAcceptQueueAndItsOverflowsAreReported(t *testing.T) {
	s := localSource(t, Auto)
	server, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(server) })
	if err = unix.Bind(server, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(server)
	if err != nil {
		t.Fatal(err)
	}
	port := uint16(name.(*unix.SockaddrInet4).Port)
	watches(t, s, port)
	const backlog = 2
	if err = unix.Listen(server, backlog); err != nil {
		t.Fatal(err)
	}
	for range backlog + 8 {
		client, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Close(client) })
		if err = unix.Connect(client, name); err != nil && !errors.Is(err, unix.EINPROGRESS) {
			t.Fatal(err)
		}
	}
	r := becomes(t, s, "a full queue that overflows", func(r broker.KernelReport) bool {
		return r.Ports[0].AcceptQueue == backlog+1 && r.Ports[0].Overflows > 0
	})
	if p := r.Ports[0]; p.Backlog != backlog || p.Established != backlog+1 {
		t.Errorf("port = %+v, want a backlog of %d with one more in it, all established", p, backlog)
	}
}

func TestOffAnswersThatNobodyCounts(t *testing.T) {
	s := localSource(t, Off)
	watches(t, s, 9092)
	r := reports(t, s)
	if r.Mode != broker.KernelModeOff || r.Exactness != broker.KernelUnavailable || r.Why == "" {
		t.Errorf("report = %+v, want off, unavailable, and why", r)
	}
	if _, err := s.Sockets(t.Context(), 9092); err == nil {
		t.Error("Sockets() = nil error")
	}
}

func TestOpenTakesTheValuesOfKernelAccounting(t *testing.T) {
	for _, setting := range []string{"auto", "off"} {
		s, err := Open(setting, Options{})
		if err != nil {
			t.Errorf("Open(%q) = %v", setting, err)
			continue
		}
		closes(t, s)
	}
	for _, setting := range []string{"", "on", "AUTO", "lab:/nowhere/at/all"} {
		if s, err := Open(setting, Options{}); err == nil {
			t.Errorf("Open(%q) = %v, want an error", setting, s)
		}
	}
}

func TestAClosedSourceAnswersWithErrors(t *testing.T) {
	s, err := Local(Auto, Options{})
	if err != nil {
		t.Fatal(err)
	}
	closes(t, s)
	if _, err := s.Report(t.Context()); err == nil {
		t.Error("Report() = nil error")
	}
	if err := s.Watch([]uint16{1}); err == nil {
		t.Error("Watch() = nil error")
	}
}
