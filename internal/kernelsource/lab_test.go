package kernelsource

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/internal/kernel"
	"github.com/brokerlab/brokerlab/internal/testenv"
)

// owner serves kernel counts at a socket until stop is called or the test ends.
func owner(t *testing.T, socket string, o Options) (stop func()) {
	t.Helper()
	lis, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, lis, o) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve() = %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func dials(t *testing.T, socket string, n *node) *Client {
	t.Helper()
	var file *os.File
	if n != nil {
		file = n.file
	}
	c, err := Dial(socket, file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closes(t, c) })
	return c
}

func TestOneOwnerCountsForBrokersInManyNamespaces(t *testing.T) {
	needFull(t)
	socket := filepath.Join(t.TempDir(), "kernel.sock")
	owner(t, socket, Options{})
	var clients []*Client
	var nodes []*node
	var listeners []*net.TCPListener
	for range 3 {
		n := newNode(t)
		l, port := n.bindTo(t, ":9092")
		c := dials(t, socket, n)
		watches(t, c, port)
		clients, nodes, listeners = append(clients, c), append(nodes, n), append(listeners, l)
	}
	for i, n := range nodes {
		for range i + 1 {
			client, server := n.join(t, listeners[i])
			says(t, client, hello)
			says(t, server, "x")
		}
	}
	for i, c := range clients {
		r := becomes(t, c, "as many as were made here", func(r broker.KernelReport) bool {
			return r.Group.TLS == int64(i+1) && r.Group.Served == int64(i+1)
		})
		if r.Exactness != broker.KernelExact || r.Ports[0].Port != 9092 || r.Ports[0].Backlog == 0 || r.Ports[0].Sources[0].Count != int64(i+1) {
			t.Errorf("report of node %d = %+v, want it exact and its own", i, r)
		}
		sockets, err := c.Sockets(t.Context(), 9092)
		if err != nil || len(sockets) != i+1 {
			t.Errorf("Sockets() of node %d = %d, %v, want %d", i, len(sockets), err, i+1)
		}
	}
}

func TestABrokerThatStartsAgainKeepsCountsAndBeginsItsMarksAnew(t *testing.T) {
	needFull(t)
	socket := filepath.Join(t.TempDir(), "kernel.sock")
	owner(t, socket, Options{})
	n := newNode(t)
	l, port := n.bindTo(t, ":9092")
	first := dials(t, socket, n)
	watches(t, first, port)
	var served []*net.TCPConn
	for range 3 {
		_, server := n.join(t, l)
		says(t, server, "x")
		served = append(served, server)
	}
	becomes(t, first, "three", func(r broker.KernelReport) bool { return r.Group.ServedMax == 3 })
	n.join(t, l) // never served, and stays
	witness := dials(t, socket, n)
	watches(t, witness, port)
	if r := reports(t, witness); r.Group.ServedMax != 3 {
		t.Errorf("a second watcher's mark = %d, want 3: looking disturbs nobody", r.Group.ServedMax)
	}
	closes(t, witness)
	for _, conn := range served {
		closes(t, conn)
	}
	closes(t, first) // as a killed broker does
	// The owner notices in its own time that the first has gone.
	deadline := time.Now().Add(30 * time.Second)
	for {
		second := dials(t, socket, n)
		if r := reports(t, second); len(r.Ports) != 0 {
			t.Fatalf("ports = %v before Watch, want none", r.Ports)
		}
		watches(t, second, port)
		r := reports(t, second)
		if r.Group.ServedMax == 0 && r.Group.Opened == 4 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("group = %+v, want four opened and a mark of 0", r.Group)
		}
		closes(t, second)
	}
}

func TestAClientSurvivesItsOwnersRestart(t *testing.T) {
	needFull(t)
	socket := filepath.Join(t.TempDir(), "kernel.sock")
	stop := owner(t, socket, Options{})
	n := newNode(t)
	l, port := n.bind(t)
	c := dials(t, socket, n)
	watches(t, c, port)
	n.join(t, l)
	becomes(t, c, "one", func(r broker.KernelReport) bool { return r.Group.Established == 1 })
	stop()
	if _, err := c.Report(t.Context()); err == nil {
		t.Error("Report() without an owner = nil error")
	}
	owner(t, socket, Options{})
	becomes(t, c, "the same one, seeded", func(r broker.KernelReport) bool { return r.Group.Established == 1 })
}

func TestAnOwnerWithoutBPFPollsTheNodesSocketTable(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kernel.sock")
	owner(t, socket, Options{Without: kernel.Set{kernel.Accounting: true}})
	n := newNode(t)
	l, port := n.bind(t)
	c := dials(t, socket, n)
	watches(t, c, port)
	n.join(t, l)
	r := becomes(t, c, "one", func(r broker.KernelReport) bool { return r.Group.Established == 1 })
	if r.Mode != broker.KernelModeSockDiag || r.Exactness != broker.KernelLowerBound {
		t.Errorf("report = %s, %s, want sock_diag, a lower bound", r.Mode, r.Exactness)
	}
}

// What a client must not be able to send; the owner refuses each and goes on.
func TestHostileClientsAreRefused(t *testing.T) {
	testenv.NeedRoot(t) // the owner enters its clients' namespaces
	socket := filepath.Join(t.TempDir(), "kernel.sock")
	owner(t, socket, Options{Without: kernel.Set{kernel.Accounting: true}})
	own, err := os.Open("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, own)
	uts, err := os.Open("/proc/self/ns/uts")
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, uts)
	file, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer closes(t, file)
	frame := func(s string) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...) }
	helloFrame := frame(`{"version":1,"op":"hello"}`)
	for name, tt := range map[string]struct {
		first  []byte
		files  []*os.File
		then   []byte
		answer string // in what comes back; "" is nothing
	}{
		"no namespace":       {helloFrame, nil, nil, "want one"},
		"two namespaces":     {helloFrame, []*os.File{own, own}, nil, "want one"},
		"a file":             {helloFrame, []*os.File{file}, nil, "no network namespace"},
		"another namespace":  {helloFrame, []*os.File{uts}, nil, "no network namespace"},
		"another version":    {frame(`{"version":9,"op":"hello"}`), []*os.File{own}, nil, "different releases"},
		"no hello":           {frame(`{"version":1,"op":"report"}`), []*os.File{own}, nil, "first request"},
		"no JSON":            {frame(`hello`), []*os.File{own}, nil, "invalid character"},
		"endless":            {binary.BigEndian.AppendUint32(nil, 1<<31), []*os.File{own}, nil, "too long"},
		"unknown operation":  {helloFrame, []*os.File{own}, frame(`{"version":1,"op":"halt"}`), "unknown operation"},
		"port of nobody":     {helloFrame, []*os.File{own}, frame(`{"version":1,"op":"sockets","port":9}`), "not watched"},
		"endless afterwards": {helloFrame, []*os.File{own}, binary.BigEndian.AppendUint32(nil, 1<<31), `"version":1`},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: socket})
			if err != nil {
				t.Fatal(err)
			}
			defer closes(t, conn)
			var fds []int
			for _, f := range tt.files {
				fds = append(fds, int(f.Fd()))
			}
			var rights []byte
			if len(fds) > 0 {
				rights = unix.UnixRights(fds...)
			}
			if _, _, err := conn.WriteMsgUnix(tt.first, rights, nil); err != nil {
				t.Fatal(err)
			}
			// Whoever is refused may find the connection closed already.
			_, _ = conn.Write(tt.then)
			_ = conn.CloseWrite()
			got, _ := io.ReadAll(conn)
			if !strings.Contains(string(got), tt.answer) {
				t.Errorf("answer = %q, want %q in it", got, tt.answer)
			}
		})
	}
	c := dials(t, socket, nil)
	if _, err := c.Report(t.Context()); err != nil {
		t.Errorf("after all of them Report() = %v", err)
	}
}

// Whatever arrives, reading a frame ends and takes no more memory than came.
func FuzzReadFrame(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x02{}"))
	f.Add([]byte("\xff\xff\xff\xff"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		var q request
		_ = readFrame(strings.NewReader(string(b)), maxRequest, &q)
	})
}
