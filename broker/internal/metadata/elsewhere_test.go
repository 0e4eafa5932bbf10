package metadata

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// portOf is where a Kafka of one node is, for another one to be there.
func portOf(tb testing.TB, c *kfake.Cluster) int {
	tb.Helper()
	_, text, err := net.SplitHostPort(c.ListenAddrs()[0])
	if err != nil {
		tb.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		tb.Fatal(err)
	}
	return port
}

// kafkaAt is a Kafka of one node that can be stopped, with a directory, at a port and with an id of its cluster.
func kafkaAt(tb testing.TB, dir string, port int, cluster string) *kfake.Cluster {
	tb.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(dir), kfake.ClusterID(cluster))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// contents says which topics a Kafka has and where each ends.
func contents(tb testing.TB, c *kfake.Cluster) string {
	tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		tb.Fatal(err)
	}
	defer client.Close()
	meta, err := kmsg.NewPtrMetadataRequest().RequestWith(within(tb), client)
	if err != nil {
		tb.Fatal(err)
	}
	all := map[string]int64{}
	for _, t := range meta.Topics {
		all[*t.Topic] = c.PartitionInfo(*t.Topic, 0).HighWatermark
	}
	return fmt.Sprint(all)
}

// What answers at the address of the log and is not the cluster that has it is as good as out of reach: nothing is made or written
// there, whatever it holds, and nothing of it is read.
func TestLogThatIsElsewhereIsOutOfReach(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cluster string
		holds   int // entries of another log
		told    string
	}{
		"another cluster, empty":           {"other", 0, "another cluster is at its address, other"},
		"another cluster with its own log": {"other", 40, "another cluster is at its address, other"},
		"its own cluster, empty":           {"own", 0, "topic __brokerlab_metadata of the metadata log is gone from cluster own"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own, foreign := t.TempDir(), t.TempDir()
			if c.holds > 0 {
				other := kafkaAt(t, foreign, 0, c.cluster)
				s := open(t, at(other, 1))
				fill(t, s, 0, c.holds)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				other.Close()
			}
			log := kafkaAt(t, own, 0, "own")
			port := portOf(t, log)
			var said lines
			o := at(log, 1)
			o.Log = said.logger()
			s := open(t, o)
			join(t, s, brisk)
			if err := s.Append(within(t), alice()); err != nil {
				t.Fatal(err)
			}
			log.Close()

			log = kafkaAt(t, foreign, port, c.cluster)
			before := contents(t, log)
			waits := make(chan error, 1)
			go func() { waits <- s.Append(within(t), AddACL{Binding: rangeRule("10.0.0.0/8")}) }() // until the log is back
			eventually(t, "the broker is fenced", s.Fenced)
			eventually(t, "the store says why", func() bool {
				status := s.Status()
				return !status.Connected && strings.Contains(status.Why.Error(), c.told)
			})
			for end := time.Now().Add(brisk.Session); time.Now().Before(end); pause(t.Context(), brisk.Heartbeat) {
				if !s.Fenced() || s.Err() != nil || s.ACLs().Len() != 0 {
					t.Fatalf("fenced %v, error %v, %d rules, want a store that goes on as it was, fenced", s.Fenced(), s.Err(), s.ACLs().Len())
				}
			}
			if after := contents(t, log); after != before {
				t.Errorf("there is %s, want what was there before: %s", after, before)
			}
			if n := said.count(c.told); n != 1 {
				t.Errorf("the log says %d times that %s, want once", n, c.told)
			}
			log.Close()

			kafkaAt(t, own, port, "own")
			eventually(t, "the broker is let in again", func() bool { return !s.Fenced() })
			if err := <-waits; err != nil {
				t.Errorf("Append() while the log was elsewhere = %v", err)
			}
			if !s.ACLs().Has(rangeRule("10.0.0.0/8")) {
				t.Error("the change that was waiting is not there")
			}
		})
	}
}

// A sign of life says that a broker runs, and not that it knows what holds: it has to read the log, too.
func TestSignsOfLifeAloneDoNotDo(t *testing.T) {
	t.Parallel()
	c := shared(t, 1)
	reads := newRelay(t)
	var said lines
	o := reads.through(at(c, 2))
	o.Log = said.logger()
	a, b := open(t, at(c, 1)), open(t, o)
	signs := newRelay(t)
	o.Remote.Client = []kgo.Opt{kgo.Dialer(signs.dial)} // what follows is the way of its signs of life
	join(t, a, brisk)
	join(t, b, brisk)

	reads.cut(true)
	eventually(t, "broker 2 fences itself, though its signs of life arrive", b.Fenced)
	eventually(t, "broker 1 fences broker 2, which gives no more", func() bool { got, _ := a.Image().Broker(2); return got.Fenced })
	reads.heal()
	eventually(t, "broker 2 is back", func() bool { return !b.Fenced() })

	signs.cut(true)
	reads.cut(true)
	eventually(t, "broker 2 is fenced", b.Fenced)
	signs.heal()
	// Nothing comes after: broker 1 has not written meanwhile, so that there is no entry that broker 2 lacks.
	for end := time.Now().Add(2 * brisk.Session); time.Now().Before(end); pause(t.Context(), 10*time.Millisecond) {
		if !b.Fenced() {
			t.Fatal("broker 2 is let in before it has read the log")
		}
	}
	before := said.count(`reached again" to=read`)
	reads.heal()
	eventually(t, "broker 2 is back", func() bool { return !b.Fenced() })
	if said.count(`reached again" to=read`) == before {
		t.Error("broker 2 is back, and does not say that it reads the log")
	}
}

// A copy of the log that is older than what a broker has applied ends it, and lets nobody in before.
func TestOlderCopyOfTheLogStopsTheStore(t *testing.T) {
	t.Parallel()
	dir, copied := t.TempDir(), t.TempDir()
	c := kafkaAt(t, dir, 0, "own")
	port := portOf(t, c)
	first := open(t, at(c, 1))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	c = kafkaAt(t, dir, port, "own")
	s := open(t, at(c, 1))
	join(t, s, brisk)
	fill(t, s, 0, 3)
	c.Close()
	eventually(t, "the broker is fenced", s.Fenced)
	kafkaAt(t, copied, port, "own")
	select {
	case <-s.Failed():
	case <-within(t).Done():
		t.Fatal("a store goes on with an older copy of its log")
	}
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "some were lost") || !s.Fenced() {
		t.Errorf("Err() = %v, fenced %v, want that entries were lost, and fenced", err, s.Fenced())
	}
}

// A far end that names topics in its requests, and not their ids, holds a log as well.
func TestLogIsHeldByAFarEndThatKnowsNoTopicIDs(t *testing.T) {
	t.Parallel()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.MaxVersions(kversion.V2_7_0()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	a, b := open(t, at(c, 1)), open(t, at(c, 2))
	join(t, a, brisk)
	join(t, b, brisk)
	if err := a.Append(within(t), alice()); err != nil {
		t.Fatal(err)
	}
	same(t, a, b)
}
