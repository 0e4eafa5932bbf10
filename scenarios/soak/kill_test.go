//go:build soak

package soak

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const killedAt = "127.0.0.1:29811"

// ledger is what a broker has acknowledged, over all its lives. What was asked for and not answered may be either way.
type ledger struct {
	mu      sync.Mutex                 // guards what follows
	records map[int32]map[int64]string // partition → offset → value
	users   map[string]int32           // user → SCRAM iterations; 0: deleted
	topics  map[string]bool            // topic → exists
	unsure  map[string]bool            // users and topics whose last change was not answered
	n       int                        // acknowledged changes of users and topics
}

// change does one change of a user or topic and writes down what came of it.
func (l *ledger) change(of string, do func() error, acknowledged func()) error {
	l.mu.Lock()
	l.unsure[of] = true
	l.mu.Unlock()
	err := do()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		acknowledged()
		delete(l.unsure, of)
		l.n++
	}
	return err
}

// A broker is killed again and again while records (acks=all), users and topics change. Whatever it acknowledged is there
// when it is back: each record at its offset, each user with its iterations, each topic or its absence.
func TestNothingAcknowledgedIsLostToKills(t *testing.T) {
	rounds := number(t, "SOAK_KILLS", 100)
	dir := t.TempDir()
	config := filepath.Join(dir, "server.properties")
	properties := "node.id=1\nlisteners=PLAINTEXT://" + killedAt + "\nkernel.accounting=off\nlog.dirs=" + dir + "/data\n"
	if err := os.WriteFile(config, []byte(properties), 0o600); err != nil {
		t.Fatal(err)
	}
	l := &ledger{records: map[int32]map[int64]string{}, users: map[string]int32{}, topics: map[string]bool{}, unsure: map[string]bool{}}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	p := newProgress("kill -9", rounds)
	var back time.Duration
	for round := range rounds {
		begin := time.Now()
		b := startBroker(t, config)
		c := newClient(t, kgo.SeedBrokers(killedAt))
		untilAnswers(t, c)
		back += time.Since(begin)
		if round == 0 {
			if _, err := kadm.NewClient(c).CreateTopic(t.Context(), 3, 1, nil, "kept"); err != nil {
				t.Fatal(err)
			}
		}
		l.compare(t, c, round)
		c.Close()
		l.work(t, b, round, time.Duration(50+random.IntN(400))*time.Millisecond)
		if t.Failed() {
			return
		}
		p.at(round+1, fmt.Sprintf(", %d records and %d changes acknowledged", l.count(), l.n))
	}
	b := startBroker(t, config)
	defer b.kill()
	c := newClient(t, kgo.SeedBrokers(killedAt))
	untilAnswers(t, c)
	l.compare(t, c, rounds)
	p.summary("%d kills, %d records and %d changes of users and topics acknowledged, none lost; back after %v in the mean",
		rounds, l.count(), l.n, (back / time.Duration(rounds)).Round(time.Millisecond))
}

func (l *ledger) count() int {
	n := 0
	for _, p := range l.records {
		n += len(p)
	}
	return n
}

// work changes all three kinds until the broker is killed after d.
func (l *ledger) work(t *testing.T, b *process, round int, d time.Duration) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var working sync.WaitGroup
	c := newClient(t, kgo.SeedBrokers(killedAt), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0))
	defer c.Close()
	k := kadm.NewClient(c)
	for partition := range int32(3) {
		working.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				r := &kgo.Record{Topic: "kept", Partition: partition, Value: fmt.Appendf(nil, "round %d record %d", round, i)}
				if c.ProduceSync(ctx, r).FirstErr() != nil {
					return
				}
				l.mu.Lock()
				if l.records[partition] == nil {
					l.records[partition] = map[int64]string{}
				}
				l.records[partition][r.Offset] = string(r.Value)
				l.mu.Unlock()
			}
		})
	}
	working.Go(func() {
		for i := int32(0); ctx.Err() == nil; i++ {
			name, iterations := fmt.Sprintf("user-%d", i%20), 4096+i
			err := l.change(name, func() error {
				if i%5 == 4 {
					iterations = 0
					gone, err := k.AlterUserSCRAMs(ctx, []kadm.DeleteSCRAM{{User: name, Mechanism: kadm.ScramSha256}}, nil)
					if err == nil && gone[name].ErrMessage != "" && l.users[name] == 0 {
						return nil // it was not there
					}
					return firstOf(err, gone.Error())
				}
				made, err := k.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{User: name, Mechanism: kadm.ScramSha256, Iterations: iterations, Password: "secret"}})
				return firstOf(err, made.Error())
			}, func() { l.users[name] = iterations })
			if err != nil {
				return
			}
		}
	})
	working.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			name := fmt.Sprintf("topic-%d-%d", round, i)
			if l.change(name, func() error {
				made, err := k.CreateTopic(ctx, 2, 1, nil, name)
				return firstOf(err, made.Err)
			}, func() { l.topics[name] = true }) != nil {
				return
			}
			if i%3 == 0 {
				continue
			}
			if l.change(name, func() error {
				gone, err := k.DeleteTopic(ctx, name)
				return firstOf(err, gone.Err)
			}, func() { l.topics[name] = false }) != nil {
				return
			}
		}
	})
	settled(ctx, d)
	b.kill()
	stop()
	c.Close() // records that are under way outlive their context
	working.Wait()
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// compare holds what the broker has to the ledger.
func (l *ledger) compare(t *testing.T, c *kgo.Client, round int) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	k := kadm.NewClient(c)
	for name := range l.unsure { // it is whatever it is now
		delete(l.users, name)
		delete(l.topics, name)
		delete(l.unsure, name)
	}
	topics, err := k.ListTopics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range l.topics {
		if got := topics.Has(name); got != want {
			t.Errorf("round %d: topic %s exists = %t, want %t", round, name, got, want)
		}
	}
	users, err := k.DescribeUserSCRAMs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range l.users {
		got := int32(0)
		for _, info := range users[name].CredInfos {
			got = info.Iterations
		}
		if got != want {
			t.Errorf("round %d: user %s has %d iterations, want %d", round, name, got, want)
		}
	}
	l.compareRecords(ctx, t, round)
}

// compareRecords reads every partition from its beginning.
func (l *ledger) compareRecords(ctx context.Context, t *testing.T, round int) {
	t.Helper()
	if l.count() == 0 {
		return
	}
	offsets, last := map[int32]kgo.Offset{}, map[int32]int64{}
	for partition, records := range l.records {
		offsets[partition] = kgo.NewOffset().AtStart()
		last[partition] = slices.Max(slices.Collect(maps.Keys(records)))
	}
	c := newClient(t, kgo.SeedBrokers(killedAt), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"kept": offsets}), kgo.FetchMaxWait(100*time.Millisecond))
	defer c.Close()
	found := 0
	for len(last) > 0 {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Errorf("round %d: records up to %v cannot be read: %v", round, last, err)
			return
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if want, ok := l.records[r.Partition][r.Offset]; ok {
				found++
				if got := string(r.Value); got != want {
					t.Errorf("round %d: partition %d offset %d = %q, want %q", round, r.Partition, r.Offset, got, want)
				}
			}
			if r.Offset >= last[r.Partition] {
				delete(last, r.Partition)
			}
		})
	}
	if want := l.count(); found < want {
		t.Errorf("round %d: %d of %d acknowledged records are there", round, found, want)
	}
}
