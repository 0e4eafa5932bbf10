package metadata

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// millionRules fills a log with a million rules, 10,000 in an entry.
func millionRules(b *testing.B, s *Store) {
	b.Helper()
	const entries, each = 100, 10_000
	for n := range entries {
		records := make([]Record, each)
		for i := range records {
			id := n*each + i
			records[i] = AddACL{Binding: acl.Binding{
				Pattern:   acl.Pattern{Type: acl.Topic, Name: fmt.Sprint("topic-", id%5000), Kind: acl.Literal},
				Principal: fmt.Sprint("User:u-", id/5000%40), Host: fmt.Sprintf("10.%d.%d.0/24", id/200_000, id%256),
				Operation: acl.Read, Permission: acl.Allow,
			}}
			if id%2 == 1 {
				r, _ := records[i].(AddACL)
				r.Name, r.Principal, r.Host = fmt.Sprint("team-", id%300), fmt.Sprint("User:own-", id), fmt.Sprintf("10.1.%d.%d", id/256%256, id%256)
				records[i] = r
			}
		}
		if err := s.Append(b.Context(), records...); err != nil {
			b.Fatal(err)
		}
	}
}

// joinEnv names the servers of a cluster that a child joins.
const joinEnv = "METADATA_TEST_JOIN"

// joinChild joins a cluster and says how many rules it has, what their digest is and how many milliseconds it took to open
// the store, to join, and of the processors.
func joinChild(servers []string, stdout io.Writer) {
	ctx := context.Background()
	began := time.Now()
	s, err := Open(ctx, Options{NodeID: 2, Remote: &Remote{Servers: servers, Topic: sharedTopic}})
	if err != nil {
		say(stdout, "open", err)
		return
	}
	opened := time.Since(began)
	if err := s.Join(ctx, brokerOf(2), calm); err != nil {
		say(stdout, "join", err)
		return
	}
	joined := time.Since(began)
	var used unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &used) // cannot fail for this process
	say(stdout, s.ACLs().Len(), fmt.Sprintf("%x", s.Image().rules), opened.Milliseconds(), joined.Milliseconds(),
		time.Duration(used.Utime.Nano()+used.Stime.Nano()).Milliseconds(), used.Maxrss>>10)
	_ = s.Leave(ctx) // the parent has its figures
	_ = s.Close()
}

// BenchmarkJoin is a process that joins a cluster with a million rules: from a log that was never shortened, and with a
// snapshot of it.
func BenchmarkJoin(b *testing.B) {
	for name, every := range map[string]snapshotEvery{
		"log":      {entries: 1 << 40, bytes: 1 << 40},
		"snapshot": {entries: 100_000, bytes: 20 << 20},
	} {
		b.Run(name, func(b *testing.B) {
			c := shared(b, 3)
			o := at(c, 1)
			o.every = every
			first := open(b, o)
			millionRules(b, first)
			join(b, first, calm)
			eventually(b, "snapshots are done", func() bool { return !first.snapshotting.Load() })
			want := fmt.Sprintf("%d %x", first.ACLs().Len(), first.Image().rules)
			var opened, joined, used, memory float64
			for b.Loop() {
				cmd := exec.CommandContext(b.Context(), os.Args[0])
				cmd.Env = append(os.Environ(), joinEnv+"="+strings.Join(c.ListenAddrs(), ","))
				cmd.Stderr = os.Stderr
				out, err := cmd.Output()
				if err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				rest, ok := strings.CutPrefix(string(out), want)
				var o, j, u, m float64
				if _, err := fmt.Sscan(rest, &o, &j, &u, &m); !ok || err != nil {
					b.Fatalf("a child says %q, want %s first", out, want)
				}
				opened, joined, used, memory = opened+o, joined+j, used+u, max(memory, m)
			}
			b.ReportMetric(float64(first.ACLs().Len()), "rules")
			b.ReportMetric(float64(first.Image().snapshot.bytes>>20), "snapshot-MB")
			b.ReportMetric(opened/float64(b.N), "ms/open")
			b.ReportMetric(joined/float64(b.N), "ms/join")
			b.ReportMetric(used/float64(b.N), "cpu-ms")
			b.ReportMetric(memory, "rss-MB")
		})
	}
}

// BenchmarkPropagation is how long a change at one broker takes to hold at another: from the call of Append there to the
// image here.
func BenchmarkPropagation(b *testing.B) {
	c := shared(b, 3)
	writes := open(b, at(c, 1))
	images := make(chan int64, 1<<16)
	o := at(c, 2)
	o.Changed = func(i *Image) { images <- i.Offset() }
	open(b, o)
	var acknowledged, visible time.Duration
	for b.Loop() {
		began := time.Now()
		if err := writes.Append(b.Context(), alice()); err != nil {
			b.Fatal(err)
		}
		acknowledged += time.Since(began)
		for <-images < writes.Image().Offset() {
		}
		visible += time.Since(began)
	}
	b.ReportMetric(float64(acknowledged.Microseconds())/float64(b.N), "µs/acknowledged")
	b.ReportMetric(float64(visible.Microseconds())/float64(b.N), "µs/visible")
}
