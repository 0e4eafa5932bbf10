package broker_test

import (
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/brokerlab/brokerlab/broker"
)

// otherHost is where the engines of these tests are, which are started again at the ports that they had.
const otherHost = "127.0.0.19"

// freePorts are n ports of otherHost one after another; the first is returned.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	for range 100 {
		first, err := net.Listen("tcp", otherHost+":0")
		if err != nil {
			t.Fatal(err)
		}
		port, taken := first.Addr().(*net.TCPAddr).Port, []net.Listener{first}
		for len(taken) < n {
			l, err := net.Listen("tcp", otherHost+":"+strconv.Itoa(port+len(taken)))
			if err != nil {
				break
			}
			taken = append(taken, l)
		}
		for _, l := range taken {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if len(taken) == n {
			return port
		}
	}
	t.Fatalf("no %d ports one after another are free", n)
	return 0
}

// letsIn tells whether a listener answers a new client.
func letsIn(t *testing.T, b *broker.Broker, listener string) bool {
	t.Helper()
	r := dial(t, b.Addr(listener))
	defer r.close()
	if _, err := r.conn.Write(framed(18, 0, false, nil)); err != nil {
		return false
	}
	_, err := r.answer(false)
	return err == nil
}

// An engine that was started without its data directory is not the one that has the log, wherever that is: brokers count as fenced
// by their own clock, say why, and make nothing there. When the right data is back at the address they are let in again.
func TestAnEngineWithOtherDataIsNotTakenForTheLog(t *testing.T) {
	t.Parallel()
	for name, apart := range map[string]bool{"log of its own": true, "log beside the topics": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const nodes = 3
			port := freePorts(t, 2+nodes)
			cfg := broker.EngineConfig{Listen: otherHost + ":" + strconv.Itoa(port)}
			if apart {
				cfg.Metadata = otherHost + ":" + strconv.Itoa(port+1+nodes)
			}
			right := cfg
			right.Dir = t.TempDir()
			bootstrap, metadata, stop := engineAt(t, right)
			if !apart {
				metadata = bootstrap
			}
			var logs [2]logText
			var all [2]*broker.Broker
			for i := range all {
				all[i] = start(t, faceOf(t, i+1, bootstrap, metadata, "authorizer.class.name="+broker.StandardAuthorizer, "super.users=User:ANONYMOUS"),
					broker.WithLog(slog.New(slog.NewTextHandler(&logs[i], nil))))
			}
			ctx := limit(t)
			rule := kadm.NewACLs().Allow("User:alice").AllowHosts("*").Topics("orders").Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
			if _, err := kadm.NewClient(client(t, all[0].Addr("PLAINTEXT"))).CreateACLs(ctx, rule); err != nil {
				t.Fatal(err)
			}
			stop()

			_, _, stop = engineAt(t, cfg) // with no directory
			const said = "another cluster is at its address"
			for i, b := range all {
				until(t, "the broker to refuse new clients", func() bool { return !letsIn(t, b, "PLAINTEXT") })
				if !letsIn(t, b, "INTERNAL") {
					t.Errorf("broker %d refuses whoever looks after it, too", i+1)
				}
				if n := strings.Count(logs[i].String(), said); n != 1 {
					t.Errorf("broker %d says %d times that %s, want once", i+1, n, said)
				}
			}
			for _, at := range []string{bootstrap, metadata} {
				topics, err := kadm.NewClient(client(t, addrPort(t, at))).ListTopicsWithInternal(ctx)
				if err != nil || len(topics) > 0 {
					t.Errorf("the engine with other data has the topics %v, %v, want none", topics.Names(), err)
				}
			}
			stop()

			engineAt(t, right)
			for i, b := range all {
				const let = "this broker is not fenced any more"
				until(t, "the broker to be let in again", func() bool { return letsIn(t, b, "PLAINTEXT") && strings.Contains(logs[i].String(), let) })
				lines := slices.Collect(strings.Lines(logs[i].String()))
				last := func(text string) int {
					at := -1
					for i, line := range lines {
						if strings.Contains(line, text) {
							at = i
						}
					}
					return at
				}
				read, in := last(`msg="metadata log is reached again" to=read`), last(let)
				if read < 0 || in < read {
					t.Errorf("broker %d is let in by line %d of its log and reads the metadata by line %d, want it to read first:\n%s", i+1, in, read, strings.Join(lines, ""))
				}
				found, err := kadm.NewClient(client(t, b.Addr("PLAINTEXT"))).DescribeACLs(ctx, rule)
				if err != nil || len(found) != 1 || len(found[0].Described) != 1 {
					t.Errorf("DescribeACLs at broker %d = %+v, %v, want the rule that was made", i+1, found, err)
				}
			}
		})
	}
}

func addrPort(t *testing.T, text string) netip.AddrPort {
	t.Helper()
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
