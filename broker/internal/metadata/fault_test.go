package metadata

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

func TestBrokersThatBeginALogAtOnceAreOneCluster(t *testing.T) {
	t.Parallel()
	c := shared(t, 3)
	stores := make([]*Store, 5)
	var wg sync.WaitGroup
	for i := range stores {
		wg.Go(func() {
			s, err := Open(within(t), at(c, int32(i)))
			if err != nil {
				t.Error(err)
				return
			}
			stores[i] = s
		})
	}
	wg.Wait()
	for _, s := range stores {
		if s == nil {
			t.FailNow()
		}
		t.Cleanup(func() { _ = s.Close() })
	}
	same(t, stores...)
	first := stores[0].Image()
	for _, s := range stores {
		if i := s.Image(); i.ClusterID() != first.ClusterID() || i.FeatureEpoch() != 1 {
			t.Errorf("cluster %s with %d changes of features, want %s with 1", i.ClusterID(), i.FeatureEpoch(), first.ClusterID())
		}
	}
	o := at(c, 9)
	o.ClusterID = "another"
	if _, err := Open(within(t), o); err == nil || !strings.Contains(err.Error(), first.ClusterID()) {
		t.Errorf("Open() of another cluster's log = %v, want an error with its id", err)
	}
}

func TestBrokerCutOffGoesOnIsFencedAndComesBack(t *testing.T) {
	t.Parallel()
	for name, reset := range map[string]bool{"silence": false, "resets": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := shared(t, 1)
			way := newRelay(t)
			a, b := open(t, at(c, 1)), open(t, way.through(at(c, 2)))
			join(t, a, brisk)
			join(t, b, brisk)
			before, _ := b.Image().Broker(2)
			way.cut(reset)
			if err := a.Append(within(t), alice()); err != nil {
				t.Fatal(err)
			}
			eventually(t, "broker 2 fences itself", b.Fenced)
			eventually(t, "broker 1 fences broker 2", func() bool { got, _ := a.Image().Broker(2); return got.Fenced })
			eventually(t, "broker 2 says that it is cut off", func() bool { return !b.Status().Connected })
			status := b.Status()
			if status.Why == nil || !status.Fenced || status.Since.IsZero() {
				t.Errorf("status of a broker that is cut off = %+v", status)
			}
			if got, ok := b.Image().Broker(1); !ok {
				t.Errorf("broker 2 takes broker 1 for %+v, want as it was", got)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := b.Append(ctx, SetFeature{Name: "group.version", Level: 1}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Append() at a broker that is cut off = %v, want %v", err, context.DeadlineExceeded)
			}
			way.heal()
			eventually(t, "broker 2 is back", func() bool { return !b.Fenced() })
			if _, ok := b.Image().Scram("alice", ScramSHA256); !ok {
				t.Error("broker 2 is back before it has caught up")
			}
			if after, _ := b.Image().Broker(2); after.Epoch <= before.Epoch || after.Incarnation != before.Incarnation {
				t.Errorf("registration after = %+v, before %+v", after, before)
			}
			eventually(t, "broker 2 says that all is well", func() bool { return b.Status().Connected })
			eventually(t, "broker 1 lives on", func() bool { return !a.Fenced() })
			same(t, a, b)
		})
	}
}

func TestListenersThatChangeWhileCutOffAreKnownLater(t *testing.T) {
	t.Parallel()
	c := shared(t, 1)
	way := newRelay(t)
	a, b := open(t, at(c, 1)), open(t, way.through(at(c, 2)))
	me := join(t, b, calm)
	way.cut(true)
	me.Listeners = []BrokerListener{{Name: "NEW", Protocol: "SSL", Host: "h", Port: 1}}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := b.Reregister(ctx, me); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Reregister() at a broker that is cut off = %v, want %v", err, context.DeadlineExceeded)
	}
	way.heal()
	eventually(t, "broker 1 knows the new listener", func() bool { got, _ := a.Image().Broker(2); return got.says(me) })
}

// lasting is a Kafka that can be stopped and started again at the same address.
func lasting(tb testing.TB, dir string, port int) *kfake.Cluster {
	tb.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port), kfake.DataDir(dir))
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func TestLogThatIsGoneForAWhileFencesAllAndThenNobody(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := lasting(t, dir, 0)
	_, port, _ := strings.Cut(c.ListenAddrs()[0], ":")
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	a, b := open(t, at(c, 1)), open(t, at(c, 2))
	join(t, a, brisk)
	join(t, b, brisk)
	eventually(t, "broker 1 knows both", func() bool { return len(a.Image().Brokers()) == 2 })
	c.Close()
	eventually(t, "both fence themselves", func() bool { return a.Fenced() && b.Fenced() })
	if len(a.Image().Brokers()) != 2 {
		t.Errorf("broker 1 knows %d brokers, want 2", len(a.Image().Brokers()))
	}
	waits := make(chan error, 1)
	go func() { waits <- a.Append(within(t), alice()) }() // until there is a log again
	c = lasting(t, dir, number)
	t.Cleanup(c.Close)
	eventually(t, "both are back", func() bool { return !a.Fenced() && !b.Fenced() })
	if err := <-waits; err != nil {
		t.Errorf("Append() while the log is gone = %v", err)
	}
	same(t, a, b)
}

func TestStoreThatFellBehindReadsTheSnapshot(t *testing.T) {
	t.Parallel()
	c := shared(t, 1)
	way := newRelay(t)
	o := at(c, 1)
	o.every = snapshotEvery{entries: 20, bytes: 1 << 30}
	a, b := open(t, o), open(t, way.through(at(c, 2)))
	if err := a.Append(within(t), AddACL{Binding: rangeRule("1.0.0.0/8")}, alice()); err != nil {
		t.Fatal(err)
	}
	same(t, a, b)
	way.cut(true)
	waits := make(chan error, 1)
	go func() { waits <- b.Append(within(t), SetFeature{Name: "group.version", Level: 1}) }()
	if err := a.Append(within(t), RemoveACL{Binding: rangeRule("1.0.0.0/8")}); err != nil {
		t.Fatal(err)
	}
	fill(t, a, 0, 60)
	eventually(t, "the log was shortened", func() bool { return logStart(t, a) > b.Image().Offset() })
	way.heal()
	if err := <-waits; err != nil {
		t.Errorf("Append() at a broker that had fallen behind = %v", err)
	}
	same(t, a, b)
	if b.ACLs().Has(rangeRule("1.0.0.0/8")) || b.ACLs().Len() != a.ACLs().Len() {
		t.Errorf("broker 2 has %d rules, want %d", b.ACLs().Len(), a.ACLs().Len())
	}
	fresh := open(t, at(c, 3))
	same(t, a, fresh)
	if fresh.ACLs().Len() != 60 {
		t.Errorf("a new broker has %d rules, want 60", fresh.ACLs().Len())
	}
}

// A hundred writers at three brokers, one of them on a way that breaks again and again, take the same things away from each
// other. Every change happens once, whatever was tried how often, and all brokers agree.
func TestWritersAtSeveralBrokersAgree(t *testing.T) {
	t.Parallel()
	c := shared(t, 3)
	way := newRelay(t)
	stores := []*Store{open(t, at(c, 1)), open(t, at(c, 2)), open(t, way.through(at(c, 3)))}
	breaking, stop := context.WithCancel(t.Context())
	var breaks sync.WaitGroup
	breaks.Go(func() {
		for span := 60 * time.Millisecond; breaking.Err() == nil; span += span / 2 { // on a slow machine even one request takes long
			pause(breaking, span)
			way.cut(true)
			pause(breaking, 20*time.Millisecond)
			way.heal()
		}
	})
	const writers, things = 100, 10
	var removed, added [things]atomic.Int64 // successes
	user := func(n int) SetScram { u := alice(); u.User = "user-" + strconv.Itoa(n); return u }
	for n := range things {
		if err := stores[0].Append(within(t), user(n)); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			s := stores[w%len(stores)]
			n := w % things
			// Whoever takes the user away puts it back together with a mark of its own.
			err := s.Append(within(t), RemoveScram{User: user(n).User, Mechanism: ScramSHA256})
			switch {
			case err == nil:
				removed[n].Add(1)
			case !errors.Is(err, ErrNotFound):
				t.Error(err)
			}
			own, value := fmt.Sprint("mark-", w), "1"
			if err := s.Append(within(t), AddACL{Binding: rangeRule(fmt.Sprintf("10.0.%d.0/24", n))}, SetConfig{Resource: broker1, Name: own, Value: &value}); err != nil {
				t.Error(err)
				return
			}
			added[n].Add(1)
		})
	}
	wg.Wait()
	stop()
	breaks.Wait()
	way.heal()
	same(t, stores...)
	for n := range things {
		if removed[n].Load() != 1 || added[n].Load() != writers/things {
			t.Errorf("user %d was removed %d times and %d marks were set, want 1 and %d", n, removed[n].Load(), added[n].Load(), writers/things)
		}
	}
	for _, s := range stores {
		if marks := s.Image().Configs(broker1); len(marks) != writers || s.ACLs().Len() != things || len(s.Image().Users()) != 0 {
			t.Errorf("broker %d has %d marks, %d rules and %d users, want %d, %d and 0", s.node, len(marks), s.ACLs().Len(), len(s.Image().Users()), writers, things)
		}
	}
}

// While one broker changes metadata.version to and fro, two add ranges: each is judged by the level at its place in the log.
func TestRangesNeverRacePastTheirLevel(t *testing.T) {
	t.Parallel()
	c := shared(t, 1)
	stores := []*Store{open(t, at(c, 1)), open(t, at(c, 2)), open(t, at(c, 3))}
	const rounds = 20
	var taken, refused atomic.Int64
	var wg sync.WaitGroup
	for w, s := range stores[1:] {
		wg.Go(func() {
			for n := range rounds * 5 {
				err := s.Append(within(t), AddACL{Binding: rangeRule(fmt.Sprintf("10.%d.%d.0/24", w, n))})
				switch {
				case err == nil:
					taken.Add(1)
				case errors.Is(err, ErrUnsupported):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for n := range rounds {
			level := int16(31 + n%2*2)
			if err := stores[0].Append(within(t), SetFeature{Name: MetadataVersion, Level: level}); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	same(t, stores...)
	t.Logf("%d ranges taken, %d refused", taken.Load(), refused.Load())
	for _, s := range stores {
		if n := int64(s.ACLs().Len()); n != taken.Load() {
			t.Errorf("broker %d has %d rules, want %d", s.node, n, taken.Load())
		}
	}
}

func TestLiveBrokerIsNotReplaced(t *testing.T) {
	t.Parallel()
	c := shared(t, 1)
	a, again := open(t, at(c, 1)), open(t, at(c, 1))
	join(t, a, calm)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := again.Join(ctx, brokerOf(1), calm); !errors.Is(err, ErrDuplicateBroker) {
		t.Errorf("Join() of a broker that lives already = %v, want %v", err, ErrDuplicateBroker)
	}
	if a.Fenced() {
		t.Error("the first one is fenced")
	}
}

func TestChangesOfASupersededProcessAreRefused(t *testing.T) {
	t.Parallel()
	c := shared(t, 1)
	old := open(t, at(c, 1))
	later := open(t, at(c, 1))
	if err := later.Append(within(t), alice()); err != nil {
		t.Fatal(err)
	}
	if err := old.Append(within(t), SetFeature{Name: "group.version", Level: 1}); !errors.Is(err, ErrSuperseded) {
		t.Errorf("Append() with the node id of a later process = %v, want %v", err, ErrSuperseded)
	}
}

func TestUnknownRecordStopsEveryBroker(t *testing.T) {
	t.Parallel()
	c := shared(t, 1)
	a, b := open(t, at(c, 1)), open(t, at(c, 2))
	if err := a.log.append(within(t), [][]byte{{0, 2, 4, 3, 1, 99, 0, 0}}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Store{a, b} {
		select {
		case <-s.Failed():
		case <-within(t).Done():
			t.Fatal("a store goes on after a record that it does not know")
		}
		if err := s.Err(); !errors.Is(err, ErrUnknownRecord) || !strings.Contains(err.Error(), "type 99") {
			t.Errorf("Err() = %v, want %v with its type", err, ErrUnknownRecord)
		}
	}
	if _, err := Open(within(t), at(c, 3)); !errors.Is(err, ErrUnknownRecord) {
		t.Errorf("Open() = %v, want %v", err, ErrUnknownRecord)
	}
}

func TestLogThatWasMadeAnewStopsTheStore(t *testing.T) {
	t.Parallel()
	c := shared(t, 1)
	s := open(t, at(c, 1))
	fill(t, s, 0, 3)
	admin, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	req := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = new(sharedTopic)
	req.Topics, req.TopicNames, req.TimeoutMillis = append(req.Topics, topic), []string{sharedTopic}, 5000
	if _, err := req.RequestWith(within(t), admin); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the store misses its log", func() bool { return !s.Status().Connected })
	other := open(t, at(c, 2))
	select {
	case <-s.Failed():
	case <-within(t).Done():
		t.Fatal("a store goes on with another log")
	}
	if err := s.Err(); !strings.Contains(err.Error(), "made anew") {
		t.Errorf("Err() = %v, want that the topic was made anew", err)
	}
	if other.Err() != nil {
		t.Error(other.Err())
	}
}

func TestTopicThatLosesRecordsIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		topic      string
		partitions int
		configs    map[string]string
		want       string
	}{
		"compacted":  {sharedTopic, 1, map[string]string{"cleanup.policy": "compact", "retention.ms": "-1"}, "cleanup.policy=compact"},
		"short":      {sharedTopic + "_snapshots", 1, map[string]string{"retention.ms": "1000"}, "retention.ms=1000"},
		"partitions": {sharedTopic, 2, map[string]string{"retention.ms": "-1"}, "2 partitions"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			far := shared(t, 1)
			if err := far.CreateTopic(c.topic, int32(c.partitions), c.configs); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(within(t), at(far, 1)); err == nil || !strings.Contains(err.Error(), c.topic) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Open() with a topic that was made otherwise = %v, want its name and %s", err, c.want)
			}
		})
	}
}

func TestUnreachableLogIsNamed(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := Open(ctx, Options{Remote: &Remote{Servers: []string{"127.0.0.1:1"}, Topic: sharedTopic}})
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("Open() of a log that is not there = %v, want its address and why", err)
	}
}

func TestEqualImagesHaveEqualHashes(t *testing.T) {
	t.Parallel()
	rule, other := rangeRule("10.0.0.0/8"), rangeRule("11.0.0.0/8")
	quota := func(parts ...EntityPart) SetQuota { return SetQuota{Entity: parts, Name: "q", Value: new(1.0)} }
	user, client := EntityPart{EntityUser, new("u")}, EntityPart{EntityClientID, nil}
	a, _ := applied(t, scramLevel(), []Record{alice()}, []Record{AddACL{Binding: rule}}, []Record{quota(user, client)},
		[]Record{SetConfig{Resource: broker1, Name: "n", Value: new("v")}})
	b, _ := applied(t, []Record{SetConfig{Resource: broker1, Name: "n", Value: new("other")}}, scramLevel(), []Record{quota(client, user)},
		[]Record{AddACL{Binding: other}, AddACL{Binding: rule}}, []Record{RemoveACL{Binding: other}}, []Record{AddACL{Binding: rule}},
		[]Record{SetConfig{Resource: broker1, Name: "n", Value: new("v")}}, []Record{alice()})
	if a.Hash() != b.Hash() {
		t.Errorf("images that say the same have hashes %s and %s", a.Hash(), b.Hash())
	}
	seen := map[string]string{a.Hash(): "nothing"}
	for name, change := range map[string]Record{
		"a rule less":     RemoveACL{Binding: rule},
		"a rule":          AddACL{Binding: other},
		"no user":         RemoveScram{User: "alice", Mechanism: ScramSHA256},
		"a feature":       SetFeature{Name: "group.version", Level: 1},
		"another config":  SetConfig{Resource: broker1, Name: "n", Value: new("w")},
		"another quota":   SetQuota{Entity: Entity{user, client}, Name: "q", Value: new(2.0)},
		"a broker":        RegisterBroker{Broker: brokerOf(1)},
		"another cluster": setCluster{ID: "c"},
	} {
		index := acl.NewIndex()
		index.Add(rule)
		builder := newBuilder(a, index)
		if _, rejected := builder.apply(&entry{node: 7, incarnation: 1, sequence: 1, records: []Record{change}}); rejected != nil {
			t.Fatal(rejected)
		}
		hash := builder.image().Hash()
		if earlier, ok := seen[hash]; ok {
			t.Errorf("%s does not show in the hash: as with %s", name, earlier)
		}
		seen[hash] = name
	}
}
