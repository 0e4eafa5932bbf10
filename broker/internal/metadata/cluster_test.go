package metadata

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// shared is a Kafka of n nodes on loopback that holds a log for several stores.
func shared(tb testing.TB, n int) *kfake.Cluster {
	tb.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(n))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

const sharedTopic = "__brokerlab_metadata"

// at is the options of a store of node id with its log in c.
func at(c *kfake.Cluster, id int32) Options {
	return Options{NodeID: id, Remote: &Remote{Servers: c.ListenAddrs(), Topic: sharedTopic}}
}

// brokerOf is a registration of a broker that works at any level.
func brokerOf(id int32) Broker {
	return Broker{
		ID: id, Incarnation: newClusterID(), MinLevel: 7, MaxLevel: 33,
		Listeners: []BrokerListener{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "127.0.0.1", Port: 9000 + id}},
	}
}

// Sessions that end within a test, and such that do not.
var (
	brisk = JoinOptions{Heartbeat: 100 * time.Millisecond, Session: 2 * time.Second}
	calm  = JoinOptions{Heartbeat: 100 * time.Millisecond, Session: 5 * time.Minute}
)

// patience bounds every wait of a test.
const patience = 60 * time.Second

// eventually waits until ok says so; what is what for.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(patience); !ok(); pause(tb.Context(), 5*time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("waited %v in vain until %s", patience, what)
		}
	}
}

// within is a context for what has to be done in a test.
func within(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	tb.Cleanup(cancel)
	return ctx
}

func join(tb testing.TB, s *Store, o JoinOptions) Broker {
	tb.Helper()
	b := brokerOf(s.node)
	if err := s.Join(within(tb), b, o); err != nil {
		tb.Fatal(err)
	}
	return b
}

// same waits until all stores have applied as much as the furthest, and compares what they know.
func same(tb testing.TB, stores ...*Store) {
	tb.Helper()
	var furthest int64
	for _, s := range stores {
		furthest = max(furthest, s.Image().Offset())
	}
	for _, s := range stores {
		eventually(tb, fmt.Sprintf("broker %d has applied %d entries", s.node, furthest), func() bool { return s.Image().Offset() >= furthest })
	}
	for _, s := range stores[1:] {
		if a, b := stores[0].Image(), s.Image(); a.Offset() == b.Offset() && a.Hash() != b.Hash() {
			tb.Errorf("brokers %d and %d have other images at %d", stores[0].node, s.node, a.Offset())
		}
	}
}

func TestChangeAtOneBrokerHoldsAtAll(t *testing.T) {
	t.Parallel()
	c := shared(t, 3)
	var stores []*Store
	for id := range int32(3) {
		stores = append(stores, open(t, at(c, id+1)))
	}
	rule := rangeRule("10.0.0.0/8")
	if err := stores[0].Append(within(t), alice(), AddACL{Binding: rule}); err != nil {
		t.Fatal(err)
	}
	for _, s := range stores {
		eventually(t, "alice is known everywhere", func() bool {
			_, ok := s.Image().Scram("alice", ScramSHA256)
			return ok && s.ACLs().Has(rule)
		})
	}
	same(t, stores...)
	for _, s := range stores[1:] {
		if a, b := stores[0].Image().ClusterID(), s.Image().ClusterID(); a != b {
			t.Errorf("cluster ids %s and %s, want one", a, b)
		}
	}
}

func TestBrokerJoinsAndLeaves(t *testing.T) {
	t.Parallel()
	c := shared(t, 1)
	a, b := open(t, at(c, 1)), open(t, at(c, 2))
	if a.Fenced() {
		t.Error("a store that has not joined is fenced")
	}
	me := join(t, a, calm)
	join(t, b, calm)
	if a.Fenced() || b.Fenced() {
		t.Error("a broker that has joined is fenced")
	}
	eventually(t, "broker 1 knows both", func() bool { return len(a.Image().Brokers()) == 2 })
	got, _ := b.Image().Broker(1)
	if got.Incarnation != me.Incarnation || got.Fenced || len(got.Listeners) != 1 || got.Listeners[0] != me.Listeners[0] {
		t.Errorf("registration = %+v, want %+v", got, me)
	}
	me.Listeners[0].Port = 1234
	if err := a.Reregister(within(t), me); err != nil {
		t.Fatal(err)
	}
	if again, _ := a.Image().Broker(1); again.Listeners[0].Port != 1234 || again.Epoch <= got.Epoch {
		t.Errorf("after another registration: %+v", again)
	}
	if err := a.Leave(within(t)); err != nil {
		t.Fatal(err)
	}
	if !a.Fenced() {
		t.Error("a broker that has left is not fenced")
	}
	eventually(t, "broker 2 sees that broker 1 has left", func() bool { got, ok := b.Image().Broker(1); return ok && got.Fenced })
	if b.Fenced() {
		t.Error("broker 2 is fenced, too")
	}
}

func TestLiveBrokerThatIsFencedOrForgottenRegistersAgain(t *testing.T) {
	t.Parallel()
	c := shared(t, 1)
	a, b := open(t, at(c, 1)), open(t, at(c, 2))
	join(t, a, calm)
	join(t, b, calm)
	for name, record := range map[string]func(Broker) Record{
		"fenced":    func(b Broker) Record { return FenceBroker{ID: b.ID, Epoch: b.Epoch} },
		"forgotten": func(b Broker) Record { return UnregisterBroker{ID: b.ID} },
	} {
		eventually(t, "broker 2 knows broker 1", func() bool { got, ok := b.Image().Broker(1); return ok && !got.Fenced })
		before, _ := b.Image().Broker(1)
		if err := b.Append(within(t), record(before)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "broker 1 is back after it was "+name, func() bool {
			got, ok := b.Image().Broker(1)
			return ok && !got.Fenced && got.Epoch > before.Epoch && got.Incarnation == before.Incarnation
		})
	}
	if err := a.Leave(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := b.Append(within(t), UnregisterBroker{ID: 1}); err != nil {
		t.Fatal(err)
	}
	if got, ok := b.Image().Broker(1); ok {
		t.Errorf("a broker that has left and was forgotten is %+v", got)
	}
	for _, r := range []Record{UnregisterBroker{ID: 1}, FenceBroker{ID: 2, Epoch: 1 << 40}, FenceBroker{ID: 7}} {
		if err := b.Append(within(t), r); !errors.Is(err, ErrNotFound) {
			t.Errorf("Append(%+v) = %v, want %v", r, err, ErrNotFound)
		}
	}
}

func TestBrokerThatDiesIsFencedAndItsNextIncarnationJoins(t *testing.T) {
	t.Parallel()
	c := shared(t, 1)
	a, b := open(t, at(c, 1)), open(t, at(c, 2))
	join(t, a, brisk)
	first := join(t, b, brisk)
	if err := b.Close(); err != nil { // without leaving
		t.Fatal(err)
	}
	again := open(t, at(c, 2))
	second := join(t, again, brisk)
	got, ok := a.Image().Broker(2)
	eventually(t, "broker 1 knows the new incarnation", func() bool {
		got, ok = a.Image().Broker(2)
		return ok && got.Incarnation == second.Incarnation
	})
	if first.Incarnation == second.Incarnation || got.Fenced {
		t.Errorf("broker 2 is %+v", got)
	}
	eventually(t, "broker 1 lives on", func() bool { return !a.Fenced() })
}

func TestLevelThatALiveBrokerLacksIsRefused(t *testing.T) {
	t.Parallel()
	c := shared(t, 1)
	a, b := open(t, at(c, 1)), open(t, at(c, 2))
	join(t, a, calm)
	old := brokerOf(2)
	old.MaxLevel = 32
	err := b.Join(within(t), old, calm)
	if level := new(LevelError); !errors.As(err, &level) || level.Broker != 2 || level.Level != 33 || level.Max != 32 {
		t.Fatalf("Join() of a broker for 7 to 32 = %v, want that it lacks 33", err)
	}
	o := at(c, 3)
	o.Supported = Levels{Min: 7, Max: 32}
	if _, err = Open(within(t), o); !errors.Is(err, ErrLevel) || !strings.Contains(err.Error(), "metadata.version 33 (4.4-IV2)") {
		t.Errorf("Open() with support for 7 to 32 = %v, want %v", err, ErrLevel)
	}
	if err = a.Append(within(t), SetFeature{Name: MetadataVersion, Level: 31}); err != nil {
		t.Fatal(err)
	}
	if err = b.Join(within(t), old, calm); err != nil {
		t.Fatal(err)
	}
	err = a.Append(within(t), SetFeature{Name: MetadataVersion, Level: 33})
	if level := new(LevelError); !errors.As(err, &level) || level.Broker != 2 || level.Min != 7 || level.Max != 32 {
		t.Errorf("Append(metadata.version 33) = %v, want that broker 2 lacks it", err)
	}
	if err := b.Leave(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := a.Append(within(t), SetFeature{Name: MetadataVersion, Level: 33}); err != nil {
		t.Errorf("Append(metadata.version 33) once broker 2 is gone = %v", err)
	}
}

// What is acknowledged at one broker is there when another decides, however soon it is asked.
func TestDecisionsSeeWhatOthersWereToldIsDone(t *testing.T) {
	t.Parallel()
	c := shared(t, 1)
	a, b := open(t, at(c, 1)), open(t, at(c, 2))
	rule := rangeRule("10.0.0.0/8")
	add := func(s *Store) error {
		return s.Update(within(t), func(*Image) ([]Record, error) {
			if s.ACLs().Has(rule) {
				return nil, nil
			}
			return []Record{AddACL{Binding: rule}}, nil
		})
	}
	if err := add(a); err != nil {
		t.Fatal(err)
	}
	for n := range 200 {
		if err := a.Append(within(t), RemoveACL{Binding: rule}); err != nil {
			t.Fatal(err)
		}
		if err := add(b); err != nil {
			t.Fatal(err)
		}
		if err := a.CatchUp(within(t)); err != nil {
			t.Fatal(err)
		}
		if !a.ACLs().Has(rule) {
			t.Fatalf("round %d: a rule that was made after it had been taken away is nowhere", n)
		}
	}
}
