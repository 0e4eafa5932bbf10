package command

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

func timeOf(second int) time.Time { return time.Unix(1_790_000_000+int64(second), 0) }

func rowsOf(ids string) []admin.ClientConnection {
	var rows []admin.ClientConnection
	for _, id := range ids {
		rows = append(rows, admin.ClientConnection{
			NodeID: 1, ListClientConnectionsResponseConnection: protocol.ListClientConnectionsResponseConnection{ConnectionID: string(id)},
		})
	}
	return rows
}

// lineBuffer is an output that another goroutine may read.
type lineBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lineBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lineBuffer) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSuffix(l.b.String(), "\n"), "\n")
}

// hold opens n connections to addr, and closes them when it is called.
func hold(t *testing.T, addr string, n int) (closeAll func()) {
	t.Helper()
	var d net.Dialer
	conns := make([]net.Conn, n)
	for i := range conns {
		c, err := d.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = c
		t.Cleanup(func() { _ = c.Close() })
	}
	return func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}
}

func TestARealBrokerIsWatchedWhileConnectionsComeAndGo(t *testing.T) {
	t.Parallel()
	b := admintest.Real(t, []string{"listeners=PLAINTEXT://127.0.0.1:0"})
	addr := b.Addr("PLAINTEXT").String()
	ctx, stop := context.WithCancel(t.Context())
	var out, errout lineBuffer
	code := make(chan int, 1)
	go func() {
		code <- Run(ctx, []string{"brokerlab", "connections", "watch", "--bootstrap-server", addr, "--interval", "20ms", "--format", "json"},
			Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errout})
	}()
	sums := func() (opened, closed, open int) {
		lines := out.lines()
		for _, line := range lines {
			var doc jsonChange
			if line == "" {
				continue
			}
			if err := json.Unmarshal([]byte(line), &doc); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			open = doc.Connections
			if doc.Opened != nil {
				opened, closed = opened+*doc.Opened, closed+*doc.Closed
			}
		}
		return opened, closed, open
	}
	wait := func(what string, holds func() bool) {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(30 * time.Second); !holds(); <-tick.C {
			if time.Now().After(deadline) {
				t.Fatalf("%s: not within 30 s: %v %v", what, out.lines(), errout.lines())
			}
		}
	}
	own := 0
	wait("watched", func() bool { return len(out.lines()) > 2 })
	_, _, own = sums()
	before, _, _ := sums()
	closeAll := hold(t, addr, 50)
	wait("50 opened", func() bool { opened, _, open := sums(); return opened-before >= 50 && open >= own+50 })
	closeAll()
	wait("50 closed", func() bool { _, closed, open := sums(); return closed >= 50 && open <= own })
	hold(t, addr, 30)() // most of them between two looks
	wait("30 opened and closed", func() bool { opened, closed, _ := sums(); return opened-before >= 80 && closed >= 80 })
	stop()
	if got := <-code; got != 0 {
		t.Errorf("interrupted watch ends with %d: %v", got, errout.lines())
	}
	opened, closed, _ := sums()
	if opened-before != 80 || closed != 80 {
		t.Errorf("opened %d and closed %d, want 80 each: none twice", opened-before, closed)
	}
}

func TestARealBrokerTellsWhyConnectionsEnded(t *testing.T) {
	t.Parallel()
	b := admintest.Real(t, []string{"listeners=PLAINTEXT://127.0.0.1:0"})
	addr := b.Addr("PLAINTEXT").String()
	hold(t, addr, 3)()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if _, err := c.Write([]byte{0xff, 0xff, 0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	list := func(args ...string) ran {
		return run(t, append([]string{"brokerlab", "connections", "list", "--bootstrap-server", addr, "--closed"}, args...)...)
	}
	var doc jsonClosed
	for deadline := time.Now().Add(30 * time.Second); ; {
		got := list("--format", "json", "--client-address", "127.0.0.0/8", "--listener", "plaintext", "--reason", "malformed_request")
		if err := json.Unmarshal([]byte(got.out), &doc); err != nil || got.code != 0 {
			t.Fatalf("%v in %+v", err, got)
		}
		if len(doc.Connections) == 1 && doc.Brokers[0].Closed >= 4 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("--closed = %+v", got)
		}
	}
	if c := &doc.Connections[0]; c.Reason != "malformed_request" || c.BytesIn != 4 || c.ClosedAt == nil || c.Principal == nil || *c.Principal != "User:ANONYMOUS" {
		t.Errorf("row = %+v", c)
	}
	got := list("--reason", "client_closed", "--sort", "in", "--limit", "2")
	if got.code != 0 || strings.Count(got.out, "  client_closed  ") != 2 || !strings.Contains(got.errout, "2 of ") {
		t.Errorf("--closed --reason client_closed = %+v", got)
	}
	if got := list("--reason", "boredom"); got.code != 1 || !strings.Contains(got.errout, "boredom") {
		t.Errorf("--reason boredom = %+v", got)
	}
	if got := list("--wide", "--reason", "malformed_request"); got.code != 0 || strings.Count(got.out, "\n") != 3 || !strings.Contains(got.out, "malformed_request") {
		t.Errorf("--closed --wide = %+v", got)
	}
}
