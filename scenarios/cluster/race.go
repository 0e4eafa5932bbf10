package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

const (
	// writers is how many write at the same time, each over a connection of its own, at broker 1 and 2 in turn.
	writers = 100
	// entries is how many rules, users and quotas they all write, and rounds how often each writes one of each.
	entries, rounds = 5, 5
)

var _ = Describe("A cluster", Label("cluster"), stage.Needs(stage.Faces), func() {
	It("has the same metadata at every broker after two of them were asked at once for what excludes each other", func(ctx SpecContext) {
		const older, newer = "4.3-IV0", "4.4-IV1"
		s := three(ctx, stage.Broker("metadata.version="+older))

		By("rules for ranges of addresses at two brokers, while the third is told that the cluster may have them")
		made, refused := ranges(ctx, s, func() { Expect(s.Broker(3).Upgrade(ctx, newer)).To(BeZero()) })
		agree(ctx, s)
		for _, b := range s.All() {
			Expect(slices.Collect(maps.Keys(rulesAt(ctx, b)))).To(ConsistOf(slices.Collect(maps.Keys(made))), "rules at %s: those that were made, and none that was refused", b.Name())
		}
		report.Attach(report.Figure{Name: "rules for ranges refused before the change", Value: float64(refused)})
		report.Attach(report.Figure{Name: "and made after it", Value: float64(len(made))})

		By("the same rules, users and quotas")
		begin := time.Now()
		scribble(ctx, s)
		report.Attach(report.Figure{Name: "changes of the same entries", Value: 4 * writers * rounds})
		report.Attach(report.Figure{Name: "took", Value: time.Since(begin).Seconds(), Unit: "s"})
		agree(ctx, s)
		nobodyLeft(ctx, s)
	}, SpecTimeout(4*time.Minute))
})

// writer asks one broker over a connection of its own.
type writer struct {
	at   kmsg.Requestor
	node int
}

// all runs do for every writer at the same time, and waits for all. The writers' connections end with it.
func all(s *stage.Stage, do func(i int, w writer) error) {
	GinkgoHelper()
	var running sync.WaitGroup
	failed := make([]error, writers)
	for i := range writers {
		node := 1 + i%2
		c := s.Client(office, fmt.Sprintf("10.1.0.%d", 100+i), "PLAINTEXT", stage.Nobody, fault()...)
		running.Go(func() {
			defer c.Close()
			failed[i] = do(i, writer{s.Broker(node).Of(c), node})
		})
	}
	running.Wait()
	for i, err := range failed {
		Expect(err).NotTo(HaveOccurred(), "writer %d", i)
	}
}

// ranges has every writer ask for a rule for a range, under one name after another, until one is made. Once all were refused once,
// change is called. It returns the names of the rules that were made, and how many were refused.
func ranges(ctx context.Context, s *stage.Stage, change func()) (made map[string]bool, refused int) {
	GinkgoHelper()
	var mu sync.Mutex // guards made and refused
	made = map[string]bool{}
	var once sync.WaitGroup
	once.Add(writers)
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var changing sync.WaitGroup
	changing.Go(func() {
		defer GinkgoRecover()
		once.Wait()
		change()
	})
	all(s, func(i int, w writer) error {
		first := sync.OnceFunc(once.Done)
		defer first()
		for n := 0; ; n++ {
			name := fmt.Sprintf("%d-%d", i, n)
			code, err := makeRule(bounded, w.at, name, "10.1.0.0/24")
			if err != nil {
				return err
			}
			mu.Lock()
			if code == 0 {
				made[name] = true
			} else {
				refused++
			}
			mu.Unlock()
			first()
			if code == 0 {
				return nil
			}
		}
	})
	changing.Wait()
	return made, refused
}

// scribble has every writer create and delete the same rules, and set the same users and quotas to other values.
func scribble(ctx context.Context, s *stage.Stage) {
	GinkgoHelper()
	bounded, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	all(s, func(i int, w writer) error {
		for round := range rounds {
			name := "shared-" + strconv.Itoa((i+round)%entries)
			for _, write := range []func() (int16, error){
				func() (int16, error) { return makeRule(bounded, w.at, name, "*") },
				func() (int16, error) { return setUser(bounded, w.at, name, fmt.Appendf(nil, "salt of %d", i)) },
				func() (int16, error) { return setQuota(bounded, w.at, name, float64(1000+i)) },
				func() (int16, error) { return deleteRule(bounded, w.at, name) },
			} {
				code, err := write()
				if err != nil {
					return fmt.Errorf("%s at broker %d: %w", name, w.node, err)
				}
				if err := refusal(code); err != nil {
					return fmt.Errorf("%s at broker %d: %w", name, w.node, err)
				}
			}
		}
		return nil
	})
}
