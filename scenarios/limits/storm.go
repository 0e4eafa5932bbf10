package limits

import (
	"context"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// steady is clients that are at work before a storm, through it and after it.
type steady struct {
	name  string
	fleet *fleet.Fleet
	quiet *hdrhistogram.Histogram // request latency before
}

// steadily brings up clients of a listener that ask 20 times a second, and waits until they have.
func (g *ground) steadily(ctx context.Context, name, listener, user string, count int) *steady {
	GinkgoHelper()
	group := g.Group(otherNet, listener, user, count)
	group.Behaviour, group.Every = fleet.Metadata, 50*time.Millisecond
	s := &steady{name: name, fleet: g.in(ctx, group)}
	Eventually(s.fleet.Records).WithContext(ctx).WithTimeout(patience).Should(HaveEach(HaveField("Requests", BeNumerically(">", 20))))
	s.quiet = s.fleet.Latencies()[fleet.RequestLatency]
	return s
}

// served fails the spec unless every one of them was served all the while, and puts their latency into the report.
func (s *steady) served() {
	GinkgoHelper()
	stage.AllUp(s.fleet)
	Expect(s.fleet.Stats().Failures).To(BeZero())
	meanwhile := stage.Since(s.fleet.Latencies()[fleet.RequestLatency], s.quiet)
	Expect(meanwhile.TotalCount()).To(BeNumerically(">=", s.fleet.UpCount()), "%s", s.name)
	report.Attach(report.NewLatency(s.name+" requests before", s.quiet))
	report.Attach(report.NewLatency(s.name+" requests meanwhile", meanwhile))
	for name, h := range map[string]*hdrhistogram.Histogram{"before": s.quiet, "meanwhile": meanwhile} {
		report.Attach(report.Figure{Name: s.name + " request p99 " + name, Value: round(float64(h.ValueAtQuantile(99)) / 1000), Unit: "ms"})
	}
}

var _ = Describe("A storm of TLS clients", Label("limits"), func() {
	It("gets 1,000 of 10,000 in, as the limit says, while plaintext clients and brokers keep their service", func(ctx SpecContext) {
		const processes = 4
		step := 6 * time.Second
		if stage.Target().IsKafka() {
			step *= 5 // to shake hands with a thousand takes a young JVM a while
		}
		limit, crowd := stage.Scale(1000), stage.Scale(10000)
		g := newGround(ctx)
		g.Set(ctx, tlsLimit()+"="+text(limit))
		clients := g.steadily(ctx, "plaintext clients'", plain, "", 50)
		brokers := g.steadily(ctx, "brokers'", internal, "", 10)
		w := g.watch(ctx, limit, tlsListeners()...)

		By("all at once")
		plans := make([]fleet.Plan, processes)
		for i := range plans {
			listener, user := ssl, stage.Nobody
			if i == 0 {
				listener, user = otherTLS(), "alice"
			}
			share := crowd / processes
			plans[i] = fleet.Plan{Groups: []fleet.Group{g.Group(clientNet, listener, user, share)}, Timeout: step, Parallel: share}
		}
		begin := time.Now()
		workers := g.Workers(ctx, plans...)
		report.Attach(report.Figure{Name: "until each was in or had given up", Value: round(time.Since(begin).Seconds()), Unit: "s"})
		records, err := workers.Records()
		Expect(err).NotTo(HaveOccurred())
		storm := fleet.Count(records)
		report.Attach(report.Figure{Name: "TLS clients", Value: float64(storm.Begun)})
		report.Attach(report.Figure{Name: "of them in", Value: float64(storm.Up), Note: "their own count"})
		Expect(storm.Up).To(Equal(limit), "%v", storm.Outcomes)
		Expect(w.mark(ctx)).To(BeEquivalentTo(limit), "the storm reached the limit")
		waited := storm.Outcomes[fleet.TimedOut]
		if step > 10*time.Second {
			waited += storm.Outcomes[fleet.Reset] // by the kernel, which gives up after a while those that an accept queue has no room for
		}
		Expect(waited).To(Equal(storm.Begun-limit), "the others were let wait, not turned away: %v", storm.Outcomes)

		Expect(g.Reconcile(ctx)).To(stage.BeExplained(), "each socket in between has a class")

		By("coming and going at the limit")
		churns := make([]fleet.Churn, processes)
		for i := range churns {
			churns[i] = fleet.Churn{
				Plan: fleet.Plan{Groups: plans[i].Groups, Rate: float64(stage.Scale(100)), Parallel: stage.Scale(1000)}, Seed: uint64(i),
				Hold: 300 * time.Millisecond, How: []fleet.How{fleet.FIN, fleet.RST},
			}
		}
		_, err = workers.CloseSome(limit/processes/2, fleet.RST)
		Expect(err).NotTo(HaveOccurred())
		Expect(workers.Churn(churns, 4*time.Second)).To(Succeed())
		clients.served()
		brokers.served()
		_, err = workers.CloseAll(fleet.FIN)
		Expect(err).NotTo(HaveOccurred())
		Expect(workers.Close()).To(Succeed())
		w.end(ctx, "")
		leave(clients.fleet, 0, fleet.FIN)
		leave(brokers.fleet, 0, fleet.FIN)
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(4*time.Minute)))
})
