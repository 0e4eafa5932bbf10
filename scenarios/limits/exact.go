package limits

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// lookEvery is the time between two looks at the broker's and the kernel's counts. The marks need none.
const lookEvery = 50 * time.Millisecond

// sight is the limit of some listeners and what was seen of them. The kernel counts what is served; the classes of sockets that may be
// established beside that come from both.
type sight struct {
	ground    *ground
	witness   *stage.Witness
	limit     int
	listeners []string
	stop      context.CancelFunc
	looking   sync.WaitGroup

	mu          sync.Mutex // guards what follows
	broken      []string   // promises, in words
	looks       int
	established int64 // the most
	queued      int64 // the most in accept queues
}

// watch begins to hold the broker to a limit that some listeners share, until end is called or the spec is over.
func (g *ground) watch(ctx context.Context, limit int, listeners ...string) *sight {
	GinkgoHelper()
	s := &sight{ground: g, witness: g.Witness(ctx, listeners...), limit: limit, listeners: listeners}
	s.begin(ctx)
	return s
}

func (s *sight) begin(ctx context.Context) {
	ctx, s.stop = context.WithCancel(ctx)
	s.looking.Go(func() {
		defer GinkgoRecover()
		every := lookEvery
		if stage.Target().IsKafka() {
			every *= 5 // from outside it takes longer to look
		}
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				s.look(ctx)
			}
		}
	})
	DeferCleanup(s.over)
}

// look compares the counts of one moment with what is allowed. They are not all of the very same moment, so a difference counts only
// if it is still there when looked at again.
func (s *sight) look(ctx context.Context) {
	const looks = 3
	var broken []string
	for n := range looks {
		k, err := s.ground.TryKernel(ctx)
		if err != nil {
			return // the broker is down, or the spec is over
		}
		now := s.judge(k)
		if n > 0 {
			now = slices.DeleteFunc(now, func(text string) bool { return !slices.Contains(kinds(broken), kind(text)) })
		}
		if broken = now; len(broken) == 0 {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = append(s.broken, broken...)
}

// kind is what a finding is about, without its numbers.
func kind(finding string) string {
	before, _, _ := strings.Cut(finding, ": ")
	return before
}

func kinds(findings []string) []string {
	all := make([]string, len(findings))
	for i, f := range findings {
		all[i] = kind(f)
	}
	return all
}

// queueHolds is how many connections an accept queue holds: one more than its backlog. The kernel looks whether there is room before it
// adds one, and on each processor by itself, so that as many more can get in as there are other processors.
func queueHolds(backlog int64) int64 { return backlog + int64(runtime.NumCPU()) }

// judge tells what of an answer is not allowed.
func (s *sight) judge(k *protocol.DescribeKernelResponse) []string {
	var broken []string
	var established, queued, closing, listed, room int64
	for i := range k.Ports {
		p := &k.Ports[i]
		if !slices.ContainsFunc(s.listeners, func(name string) bool { return strings.EqualFold(name, p.ListenerName) }) || p.Broker == nil {
			continue
		}
		established, queued, closing, listed = established+p.Gauge.Established, queued+p.AcceptQueue, closing+p.Closing, listed+p.Broker.Listed
		room += p.Broker.Held + queueHolds(p.Backlog)
		if p.AcceptQueue > queueHolds(p.Backlog) {
			broken = append(broken, fmt.Sprintf("accept queue of %s: %d with a backlog of %d", p.ListenerName, p.AcceptQueue, p.Backlog))
		}
		// What is seen from outside of a target that keeps no list is read piece by piece while it changes: no proof.
		if p.Broker.Listed > int64(s.limit) && stage.Has(stage.Listing) {
			broken = append(broken, fmt.Sprintf("list of %s: %d over a limit of %d", p.ListenerName, p.Broker.Listed, s.limit))
		}
	}
	if most := int64(s.limit) + room + closing; established > most {
		broken = append(broken, fmt.Sprintf("established: %d, at most %d are allowed with %d closing", established, most, closing))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looks++
	s.established, s.queued = max(s.established, established), max(s.queued, queued)
	return broken
}

// listed is how many connections the broker has at the listeners, those in a handshake included.
func (s *sight) listed(ctx context.Context) int64 {
	GinkgoHelper()
	n := int64(0)
	for _, name := range s.listeners {
		n += s.ground.Port(ctx, name).Broker.Listed
	}
	return n
}

// limited changes the limit. It waits until what was inside beyond a limit that was lowered is evicted, and begins the marks anew.
func (s *sight) limited(ctx context.Context, limit int) {
	GinkgoHelper()
	s.over()
	before := s.limit
	s.limit = limit
	Eventually(func() int64 { return max(s.witness.Report(ctx).Group.Served, s.listed(ctx)) }).WithContext(ctx).WithTimeout(patience).
		Should(BeNumerically("<=", limit))
	if mark, most := s.mark(ctx), int64(max(before, limit)); mark > most {
		s.mu.Lock()
		s.broken = append(s.broken, fmt.Sprintf("served: the kernel saw %d at one instant while a limit of %d became %d", mark, before, limit))
		s.mu.Unlock()
	}
	s.witness.Again(ctx)
	s.begin(ctx)
}

// findings is all that was not as promised so far.
func (s *sight) findings(ctx context.Context) []string {
	GinkgoHelper()
	mark := s.mark(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	broken := slices.Clone(s.broken)
	if mark > int64(s.limit) {
		broken = append(broken, fmt.Sprintf("served: the kernel saw %d at one instant over a limit of %d", mark, s.limit))
	}
	return broken
}

// mark is the most connections that were served at one instant.
func (s *sight) mark(ctx context.Context) int64 {
	GinkgoHelper()
	return s.witness.Report(ctx).Group.ServedMax
}

// end ends the watch, puts what was seen into the report and fails the spec if the promise was broken.
func (s *sight) end(ctx context.Context, what string) {
	GinkgoHelper()
	s.over()
	r := s.witness.Report(ctx)
	s.mu.Lock()
	seen := [...]float64{float64(s.established), float64(s.queued), float64(s.looks)}
	s.mu.Unlock()
	if what != "" {
		what += ": "
	}
	report.Attach(report.Figure{Name: what + "served at one instant, the most", Value: float64(r.Group.ServedMax), Note: fmt.Sprintf("kernel, exact; limit %d", s.limit)})
	report.Attach(report.Figure{Name: what + "served in all", Value: float64(r.Group.ServedTotal), Note: "kernel"})
	report.Attach(report.Figure{Name: what + "established, the most", Value: seen[0], Note: fmt.Sprintf("in %.0f looks", seen[2])})
	report.Attach(report.Figure{Name: what + "in accept queues, the most", Value: seen[1]})
	Expect(s.findings(ctx)).To(BeEmpty())
	s.witness.Close()
}

// over ends the looking; the kernel counts on.
func (s *sight) over() {
	s.stop()
	s.looking.Wait()
}

// round leaves one digit after the point.
func round(v float64) float64 { return math.Round(v*10) / 10 }
