package fidelity

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
)

// both is brokerlab and Kafka, which run with the same properties.
type both struct {
	ours, kafka *peer
}

// pair starts brokerlab and Kafka, both at once, and ends them with t. Properties are lines of server.properties. They come
// over those that every pair has (see [defaults]): "key=" takes one of those away. A line "ours:key=value" or
// "kafka:key=value" is for one of the two. The ports of listeners that are 0 are filled in. metadata.version is the level at
// which Kafka's storage is formatted.
//
// A pair is for what others must not see, or what needs properties of its own; cases that can share use [shared].
func pair(t *testing.T, properties ...string) *both {
	t.Helper()
	needKafka(t)
	b, err := startBoth(t.TempDir(), properties)
	t.Cleanup(func() { b.stop(t) })
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// shared is the one pair that all cases use that leave it as they found it, or use names of their own. TestMain ends it.
func shared(t *testing.T) *both {
	t.Helper()
	return theShared.get(t)
}

var theShared kept

// kept is a pair that is started when it is first asked for and lives until TestMain ends it.
type kept struct {
	once       sync.Once
	properties []string
	both       *both
	dir        string
	err        error
}

func (k *kept) get(t *testing.T) *both {
	t.Helper()
	needKafka(t)
	k.once.Do(func() {
		if k.dir, k.err = os.MkdirTemp("", "brokerlab-fidelity-"); k.err == nil { //nolint:usetesting // it outlives the test
			k.both, k.err = startBoth(k.dir, k.properties)
		}
	})
	if k.err != nil {
		t.Fatal(k.err)
	}
	return k.both
}

func (k *kept) end() error {
	if k.both == nil {
		return nil
	}
	defer func() { _ = os.RemoveAll(k.dir) }()
	return k.both.each((*peer).stop)
}

func startBoth(dir string, properties []string) (*both, error) {
	b := &both{ours: newPeer("ours", dir), kafka: newPeer("kafka", dir)}
	err := b.each(func(p *peer) error { return p.start(properties) })
	return b, err
}

// each does something to both peers at the same time.
func (b *both) each(do func(*peer) error) error {
	var group sync.WaitGroup
	var errs [2]error
	for i, p := range b.peers() {
		group.Go(func() { errs[i] = do(p) })
	}
	group.Wait()
	for i, p := range b.peers() {
		if errs[i] != nil {
			return fmt.Errorf("%s: %w", p.name, errs[i])
		}
	}
	return nil
}

func (b *both) peers() []*peer { return []*peer{b.ours, b.kafka} }

// restart stops both peers in order and starts them again on the same data and ports, with other properties than they had:
// all that pair would be given.
func (b *both) restart(t *testing.T, properties ...string) {
	t.Helper()
	b.stop(t)
	if err := b.each(func(p *peer) error { return p.start(properties) }); err != nil {
		t.Fatal(err)
	}
}

func (b *both) stop(t *testing.T) {
	t.Helper()
	if err := b.each((*peer).stop); err != nil {
		t.Error(err)
	}
	if t.Failed() {
		for _, p := range b.peers() {
			t.Logf("the end of what %s said:\n%s", p.name, p.tail())
		}
	}
}

// compare runs a case as a subtest of t: run is called with each peer, for both at the same time, and what it returns, as
// JSON, is compared. Name is the case's in differences.txt, so it has to be one of a kind: area/what. What must differ has to be
// taken out or put in order by run; [peer.view] does so for answers.
func (b *both) compare(t *testing.T, name string, run func(t *testing.T, p *peer) any) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		var seen [2]any
		var done [2]bool
		t.Run("seen", func(t *testing.T) {
			for i, p := range b.peers() {
				t.Run(p.name, func(t *testing.T) {
					t.Parallel()
					seen[i] = run(t, p)
					done[i] = true
				})
			}
		})
		if done != [2]bool{true, true} {
			theList.incomplete.Store(true)
			return
		}
		theList.judge(t, name, seen[0], seen[1])
	})
}

func TestMain(m *testing.M) {
	flag.Parse()
	// Pairs of their own are at work side by side, and most of their time is waiting.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	begun := time.Now()
	code := m.Run()
	for _, k := range []*kept{&theShared, &theAuthority} {
		if err := k.end(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	if binaryDir != "" {
		_ = os.RemoveAll(binaryDir)
	}
	whole := code == 0 && flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == ""
	if gone := theList.gone(whole); len(gone) > 0 {
		for _, line := range gone {
			fmt.Fprintln(os.Stderr, line)
		}
		code = max(code, 1)
	}
	fmt.Fprintf(os.Stderr, "fidelity: brokerlab and Kafka %s: %d cases, %d fields compared, %d differ and are listed, %d s\n",
		kafkaVersion, theList.cases.Load(), theList.fields.Load(), theList.listed.Load(), int(time.Since(begun).Seconds()))
	os.Exit(code)
}

// ordered are the keys of a map, in order.
func ordered[M ~map[string]V, V any](m M) []string { return slices.Sorted(maps.Keys(m)) }
