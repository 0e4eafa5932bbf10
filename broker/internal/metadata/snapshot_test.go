package metadata

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// fill appends n entries, each with a rule, a config, and a user whose name comes back now and then.
func fill(tb testing.TB, s *Store, from, n int) {
	tb.Helper()
	for i := from; i < from+n; i++ {
		if err := s.Append(within(tb), filling(i)...); err != nil {
			tb.Fatal(err)
		}
	}
}

func filling(i int) []Record {
	rule := rangeRule(fmt.Sprintf("10.%d.%d.0/24", i/256%256, i%256))
	rule.Name = "topic-" + strconv.Itoa(i)
	user := alice()
	user.User = "user-" + strconv.Itoa(i%7)
	value, limit := strconv.Itoa(i), float64(i+1)
	return []Record{
		AddACL{Binding: rule},
		user,
		SetConfig{Resource: broker1, Name: "key-" + strconv.Itoa(i%11), Value: &value},
		SetQuota{Entity: Entity{{EntityUser, &user.User}, {EntityClientID, nil}}, Name: "producer_byte_rate", Value: &limit},
	}
}

// logStart is where a store's log begins.
func logStart(tb testing.TB, s *Store) int64 {
	tb.Helper()
	start, err := s.log.kafka.offset(within(tb), s.log.topic, atStart)
	if err != nil {
		tb.Fatal(err)
	}
	return start
}

func TestSnapshotBoundsTheReplay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := Options{Dir: dir, NodeID: 1, every: snapshotEvery{entries: 20, bytes: 1 << 30}}
	s := open(t, o)
	fill(t, s, 0, 50)
	if err := s.Append(within(t), RemoveACL{Binding: filling(3)[0].(AddACL).Binding}, SetFeature{Name: "group.version", Level: 1}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the log was shortened", func() bool { return logStart(t, s) >= 19 })
	eventually(t, "the log knows", func() bool { return s.Image().snapshot.offset > 0 && !s.snapshotting.Load() })
	want := s.Image()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, o)
	got := s.Image()
	if got.Hash() != want.Hash() || got.Offset() != want.Offset() || got.FeatureEpoch() != want.FeatureEpoch() {
		t.Errorf("after a start: image %s at %d, features at %d, want %s at %d, %d",
			got.Hash(), got.Offset(), got.FeatureEpoch(), want.Hash(), want.Offset(), want.FeatureEpoch())
	}
	if got.snapshot != want.snapshot || got.size != want.size {
		t.Errorf("after a start: snapshot %+v and %d bytes since, want %+v and %d", got.snapshot, got.size, want.snapshot, want.size)
	}
	if n := s.ACLs().Len(); n != 49 {
		t.Errorf("%d rules, want 49", n)
	}
	fill(t, s, 50, 10)
	if n := s.ACLs().Len(); n != 59 {
		t.Errorf("%d rules after more changes, want 59", n)
	}
}

// TestSnapshotIsTheSameAsTheLog holds for entries that may come in any order: what a snapshot restores is what it was made of.
func TestSnapshotIsTheSameAsTheLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, Options{Dir: dir, NodeID: 4})
	fill(t, s, 0, 30)
	image := s.Image()
	id := snapshotID{node: 4, incarnation: s.incarnation, number: 1, offset: image.Offset()}
	var rules []acl.Binding
	for r := range s.ACLs().All() {
		rules = append(rules, r)
	}
	if err := s.takeSnapshot(within(t), id, image, rules); err != nil {
		t.Fatal(err)
	}
	found, err := s.log.latestSnapshot(within(t))
	if err != nil || found == nil || found.snapshotID != id {
		t.Fatalf("latestSnapshot() = %+v, %v, want the one just made", found, err)
	}
	index := acl.NewIndex()
	b := newBuilder(emptyImage(), index)
	if err := b.restore(found, func(rules []acl.Binding) { index.Add(rules...) }); err != nil {
		t.Fatal(err)
	}
	if got := b.image(); got.Hash() != image.Hash() || got.Offset() != image.Offset() || index.Len() != s.ACLs().Len() {
		t.Errorf("restored %s at %d with %d rules, want %s at %d with %d",
			got.Hash(), got.Offset(), index.Len(), image.Hash(), image.Offset(), s.ACLs().Len())
	}
}

// stageEnv names the stage of a snapshot at which a child kills itself.
const stageEnv = "METADATA_TEST_STAGE"

// stages are where a process may die while it makes a snapshot.
var stages = []string{"parts written", "end written", "log told", "log shortened"}

// diesAt makes a child die in the middle of its second snapshot.
func diesAt(stage string) Options {
	times := 0
	return Options{
		every: snapshotEvery{entries: 20, bytes: 1 << 30},
		stage: func(now string) {
			if now != stage {
				return
			}
			times++
			if times == 2 {
				_ = unix.Kill(os.Getpid(), unix.SIGKILL) // it does not return
				select {}
			}
		},
	}
}

func TestKillInTheMiddleOfASnapshotLosesNothing(t *testing.T) {
	t.Parallel()
	for _, stage := range stages {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			acked := map[string]bool{}
			for round := range 2 {
				cmd, lines := startChild(t, dir, stageEnv+"="+stage)
				for lines.Scan() {
					word, name, _ := strings.Cut(lines.Text(), " ")
					if word != "acked" {
						t.Fatalf("child says %q", lines.Text())
					}
					acked[name] = true
				}
				if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
					t.Fatalf("child ended with %v, want that it was killed", err)
				}
				s := open(t, Options{Dir: dir, NodeID: 1})
				configs := s.Image().Configs(Resource{Type: ResourceBroker})
				for name := range acked {
					if configs[name] == "" {
						t.Errorf("round %d: %s was acknowledged and is gone", round, name)
					}
				}
				sameChange(t, s)
				if err := s.Append(within(t), alice()); err != nil {
					t.Errorf("round %d: Append() after a kill = %v", round, err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			// And the next one is made, and shortens the log.
			s := open(t, Options{Dir: dir, NodeID: 1, every: snapshotEvery{entries: 1, bytes: 1 << 30}})
			before := s.Image().Offset()
			fill(t, s, 0, 2)
			eventually(t, "the log is shortened", func() bool { return logStart(t, s) >= before-1 })
		})
	}
}

// Nobody has joined, so each of three brokers takes snapshots whenever it thinks that it is time: they must not take away
// parts of each other's.
func TestSnapshotsOfSeveralBrokersDoNotHurtEachOther(t *testing.T) {
	t.Parallel()
	c := shared(t, 3)
	var stores []*Store
	for id := range int32(3) {
		o := at(c, id+1)
		o.every = snapshotEvery{entries: 5, bytes: 1 << 30}
		stores = append(stores, open(t, o))
	}
	const each = 60
	var wg sync.WaitGroup
	for n, s := range stores {
		wg.Go(func() {
			for i := range each {
				err := ErrVerdictLost
				for errors.Is(err, ErrVerdictLost) { // so small a log may be gone before a broker has read it: once more
					err = s.Append(within(t), filling(n*each+i)...)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 5 { // whatever was shortened until now, a new broker finds its way
		fresh := open(t, at(c, 9))
		if got := fresh.Image(); got.ClusterID() != stores[0].Image().ClusterID() {
			t.Errorf("a new broker is of cluster %q", got.ClusterID())
		}
		if err := fresh.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	eventually(t, "the log was shortened", func() bool { return logStart(t, stores[0]) > each })
	fresh := open(t, at(c, 10))
	same(t, append(stores, fresh)...)
	if n := fresh.ACLs().Len(); n != len(stores)*each {
		t.Errorf("a new broker has %d rules, want %d", n, len(stores)*each)
	}
}

// A broker that ends in the middle of a snapshot leaves it to another one.
func TestSnapshotThatABrokerBeganIsTakenByAnother(t *testing.T) {
	t.Parallel()
	for _, stage := range stages {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			c := shared(t, 1)
			dying := make(chan struct{})
			var once sync.Once
			o := at(c, 1)
			o.every = snapshotEvery{entries: 20, bytes: 1 << 30}
			var first *Store
			o.stage = func(now string) {
				if now == stage {
					once.Do(func() { close(dying) })
					<-first.done.Done() // it gets no further
				}
			}
			first = open(t, o)
			join(t, first, calm)
			o = at(c, 2)
			o.every = snapshotEvery{entries: 20, bytes: 1 << 30}
			second := open(t, o)
			join(t, second, calm)
			fill(t, first, 0, 20)
			select {
			case <-dying:
			case <-within(t).Done():
				t.Fatal("broker 1 takes no snapshot")
			}
			if err := first.Leave(within(t)); err != nil {
				t.Fatal(err)
			}
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			fill(t, second, 20, 60)
			eventually(t, "broker 2 has shortened the log", func() bool { return logStart(t, second) >= 30 })
			fresh := open(t, at(c, 3))
			same(t, second, fresh)
			if n := fresh.ACLs().Len(); n != 80 {
				t.Errorf("a new broker has %d rules, want 80", n)
			}
		})
	}
}

// Whatever is in the topic of snapshots, reading it ends in a snapshot, none or an error, and what is found is restored or
// refused.
func FuzzSnapshot(f *testing.F) {
	id := snapshotID{node: 1, incarnation: 2, number: 3, offset: 4}
	var part, end writer
	part.snapshotHead(snapshotPart, id)
	part.uvarint(0)
	part.b = appendRecords(part.b, everyRecord())
	end.snapshotHead(snapshotEnd, id)
	end.uvarint(1)
	end.varint(7)    // epoch
	end.uvarint(1)   // marks
	end.varint(1)    // node
	end.varint(2)    // incarnation
	end.uvarint(9)   // sequence
	end.varint(1)    // last snapshot
	end.varint(0)    // first
	end.varint(10)   // bytes
	end.varint(1000) // size
	f.Add(part.b, end.b)
	f.Add(end.b, part.b)
	f.Fuzz(func(_ *testing.T, first, second []byte) {
		read := snapshotReader{pending: map[int32]*pendingSnapshot{}}
		for _, value := range [][]byte{first, second} {
			if err := read.record(value); err != nil {
				return
			}
		}
		if read.last == nil {
			return
		}
		index := acl.NewIndex()
		_ = newBuilder(emptyImage(), index).restore(read.last, func(rules []acl.Binding) { index.Add(rules...) })
	})
}
