package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// silentClients connects n times to a listener and waits until the broker lists them.
func silentClients(t *testing.T, bootstrap, listener string, n int) []net.Conn {
	t.Helper()
	var d net.Dialer
	conns := make([]net.Conn, n)
	for i := range conns {
		conn, err := d.DialContext(t.Context(), "tcp", listener)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		conns[i] = conn
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(30 * time.Second); ; <-tick.C {
		got := run(t, "brokerlab", "connections", "list", "--bootstrap-server", bootstrap, "--listener", "CLIENT")
		if strings.Count(got.out, "\n") == n+1 {
			return conns
		}
		if time.Now().After(deadline) {
			t.Fatalf("list = %+v, want %d", got, n)
		}
	}
}

func TestConnectionsAreShownBeforeTheyAreClosed(t *testing.T) {
	t.Parallel()
	b := admintest.Real(t, []string{
		"listeners=CLIENT://127.0.0.1:0,INSIDE://127.0.0.1:0", "advertised.listeners=CLIENT://127.0.0.1:0,INSIDE://127.0.0.1:0",
		"listener.security.protocol.map=CLIENT:PLAINTEXT,INSIDE:PLAINTEXT", "inter.broker.listener.name=INSIDE",
	})
	inside, client := b.Addr("INSIDE").String(), b.Addr("CLIENT").String()
	conns := silentClients(t, inside, client, 4)
	shut := func(args ...string) ran {
		return run(t, append([]string{"brokerlab", "connections", "close", "--bootstrap-server", inside}, args...)...)
	}
	open := func() int {
		return strings.Count(run(t, "brokerlab", "connections", "list", "--bootstrap-server", inside, "--listener", "CLIENT").out, "\n") - 1
	}

	got := shut("--all")
	for end := time.Now().Add(10 * time.Second); strings.Contains(got.out, "INSIDE") && time.Now().Before(end); { // of a command before, which is on its way out
		got = shut("--all")
	}
	if got.code != 0 || strings.Count(got.out, "would be closed") != 4 || strings.Contains(got.out, "INSIDE") || got.errout != "brokerlab: 4 connections would be closed: --yes closes them\n" {
		t.Errorf("close --all = %+v, want the four clients' and none of its own", got)
	}
	if n := open(); n != 4 {
		t.Errorf("%d are open without --yes, want 4", n)
	}

	got = shut("--listener", "client", "--limit", "1", "--yes")
	if got.code != 0 || strings.Count(got.out, "  closed\n") != 1 || got.errout != "brokerlab: 1 connection closed\n" || open() != 3 {
		t.Errorf("close --limit 1 = %+v, and %d are open", got, open())
	}

	var doc jsonClosing
	got = shut("--protocol", "plaintext", "--client-address", "127.0.0.0/8", "--limit", "2", "--format", "json", "--yes")
	if err := json.Unmarshal([]byte(got.out), &doc); err != nil || !doc.Closed || len(doc.Connections) != 2 || doc.Connections[0].Outcome != "closed" || got.errout != "" || open() != 1 {
		t.Fatalf("as JSON = %v, %+v, want two closed", err, got)
	}
	if got = shut("--id", doc.Connections[0].ConnectionID, "--yes"); got.code != 1 || !strings.Contains(got.errout, "no broker has an open connection "+doc.Connections[0].ConnectionID) {
		t.Errorf("close of what is closed = %+v, want exit 1 and that there is none", got)
	}
	if got = shut("--software", "nobody", "--yes"); got.code != 0 || got.errout != "brokerlab: no connection matches\n" {
		t.Errorf("close of nothing = %+v", got)
	}
	closed := 0
	for _, c := range conns {
		if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			closed++
		}
	}
	if closed != 3 {
		t.Errorf("%d clients see the end, want 3", closed)
	}
	tl := run(t, "brokerlab", "connections", "timeline", doc.Connections[0].ConnectionID, "--bootstrap-server", inside)
	if tl.code != 0 || !strings.Contains(tl.out, "by User:ANONYMOUS from 127.0.0.1: killed") || !strings.Contains(tl.out, "kernel  established") {
		t.Errorf("timeline = %+v, want to know who closed it", tl)
	}
}

// What is closed is what was shown: each broker is told the ids of its own, in pieces, and what has gone meanwhile is told apart.
func TestConnectionsAreClosedByTheIDsThatWereShown(t *testing.T) {
	t.Parallel()
	const many = closeAtOnce + 3
	var mu sync.Mutex // guards told
	told := map[int32][]*protocol.CloseConnectionsRequest{}
	broker := func(node int32, n int) *admintest.Broker {
		return answering(node, protocol.DefaultCloseConnectionsKey, func(req kmsg.Request) kmsg.Response {
			r, resp := req.(*protocol.CloseConnectionsRequest), protocol.NewPtrCloseConnectionsResponse()
			mu.Lock()
			told[node] = append(told[node], r)
			mu.Unlock()
			resp.NodeID = node
			if r.ValidateOnly {
				for i := range n {
					resp.Connections = append(resp.Connections, protocol.CloseConnectionsResponseConnection{
						ConnectionID: fmt.Sprint(node, "-", i), ClientAddress: "10.0.0.1", ClientPort: int32(i), IdleMillis: int64(i) * 10, Principal: "User:\x1b[2J",
					})
				}
				return resp
			}
			for _, id := range r.ConnectionIDs {
				if id != "1-7" { // it has gone
					resp.Connections = append(resp.Connections, protocol.CloseConnectionsResponseConnection{ConnectionID: id})
				}
			}
			return resp
		})
	}
	c := admintest.Start(t, broker(1, many), broker(2, 1))
	got := run(t, "brokerlab", "connections", "close", "--bootstrap-server", c.Addr(0), "--principal", "User:x", "--yes")
	if got.code != 0 || !strings.Contains(got.errout, fmt.Sprint("brokerlab: ", many, " connections closed")) || strings.Count(got.out, "gone before") != 1 || strings.Contains(got.out, "\x1b") {
		t.Errorf("close = %d %s", got.code, got.errout)
	}
	if len(told[1]) != 3 || len(told[1][1].ConnectionIDs) != closeAtOnce || len(told[1][2].ConnectionIDs) != 3 || len(told[2]) != 2 || !slices.Equal(told[2][1].ConnectionIDs, []string{"2-0"}) {
		t.Errorf("told to close: %d and %d times", len(told[1]), len(told[2]))
	}
	if r := told[1][1]; r.ValidateOnly || r.All || r.PrincipalFilter != nil {
		t.Errorf("told to close %+v, want nothing but ids", r)
	}
	// The longest idle come first, over all brokers.
	got = run(t, "brokerlab", "connections", "close", "--bootstrap-server", c.Addr(0), "--all", "--limit", "2", "--format", "json")
	var doc jsonClosing
	if err := json.Unmarshal([]byte(got.out), &doc); err != nil || len(doc.Connections) != 2 || doc.Connections[0].IdleMillis != (many-1)*10 || doc.Closed || doc.Connections[0].Outcome != "would be closed" {
		t.Errorf("close --limit 2 = %v, %+v", err, doc)
	}
}
