package limits

import (
	"context"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// flood lets clients come and go until the function that it returns is called.
func (g *ground) flood(ctx context.Context, churn fleet.Churn, timeout time.Duration) (f *fleet.Fleet, stop func()) {
	GinkgoHelper()
	var going sync.WaitGroup
	DeferCleanup(going.Wait)
	f = g.NewFleetOf(timeout)
	ctx, cancel := context.WithCancel(ctx)
	DeferCleanup(cancel)
	going.Go(func() {
		defer GinkgoRecover()
		Expect(f.Churn(ctx, churn)).To(Succeed())
	})
	return f, func() {
		cancel()
		going.Wait()
		leave(f, 0, fleet.RST)
	}
}

var _ = Describe("A limit that moves in a storm", Label("limits"), func() {
	It("is never exceeded but by those whom it found inside, and these go at once", func(ctx SpecContext) {
		// A listener's own limit lets those stay whom it finds inside.
		g := newGround(ctx, "listener.name.internal.max.connections=1000")
		key, own, listeners := "max.ssl.connections", 0, []string{ssl, saslSSL}
		groups, timeout := []fleet.Group{g.Group(clientNet, ssl, "", 2), g.Group(otherNet, saslSSL, "alice", 1)}, 2*time.Second
		if !stage.Has(stage.MaxSSL) {
			key, own, listeners = "max.connections", int(g.own(ctx)), []string{plain, ssl, saslPlain, saslSSL}
			// It is not about handshakes then.
			groups, timeout = []fleet.Group{g.Group(clientNet, plain, "", 2), g.Group(otherNet, saslPlain, "alice", 1)}, 10*time.Second
		}
		g.Set(ctx, key+"="+text(40+own))
		w := g.watch(ctx, 40, listeners...)
		storm, stop := g.flood(ctx, fleet.Churn{
			Plan: fleet.Plan{
				Groups: groups, Rate: 300, Parallel: 300,
			},
			Hold: 400 * time.Millisecond, How: []fleet.How{fleet.FIN, fleet.RST}, Seed: uint64(GinkgoRandomSeed()),
		}, timeout)
		for _, limit := range []int{40, 10, 30, 3, 40} {
			if limit != w.limit {
				g.Set(ctx, key+"="+text(limit+own))
				w.limited(ctx, limit)
			}
			total := g.Kernel(ctx).Group.ServedTotal
			Eventually(func() int64 { return w.mark(ctx) }).WithContext(ctx).WithTimeout(patience).Should(BeNumerically(">=", limit), "the storm reaches it")
			Eventually(func() uint64 { return g.Kernel(ctx).Group.ServedTotal - total }).WithContext(ctx).WithTimeout(patience).
				Should(BeNumerically(">", 2*limit), "and goes on at it")
			Expect(w.findings(ctx)).To(BeEmpty())
			report.Attach(report.Figure{Name: "limit " + text(limit) + ": served at one instant, the most", Value: float64(w.mark(ctx)), Note: "kernel, exact"})
		}
		stop()
		report.Attach(report.Figure{Name: "clients", Value: float64(storm.Stats().Begun)})
		w.end(ctx, "")
		g.atRest(ctx)
		g.fits(ctx, g.Group(otherNet, ssl, "alice", 40))
	}, SpecTimeout(stage.Within(3*time.Minute)))

	It("is one of two values to each client, when max.connections.per.ip changes 20 times a second", func(ctx SpecContext) {
		g := newGround(ctx, "max.connections.per.ip=100")
		group := g.Group(clientNet, plain, "", 1)
		group.Source = g.Network(clientNet).At("10.1.0.10")
		storm, stop := g.flood(ctx, fleet.Churn{
			Plan: fleet.Plan{Groups: []fleet.Group{group}, Rate: 200}, Hold: 100 * time.Millisecond, How: []fleet.How{fleet.FIN, fleet.RST},
		}, patience)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for i := range stage.Scale(80) {
			g.Set(ctx, "max.connections.per.ip="+text([]int{1, 100}[i%2]))
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		stop()
		refused := 0
		for _, r := range storm.Records() {
			if r.Err() != nil {
				Expect(r.Outcome).To(Or(Equal(fleet.ClosedByBroker), Equal(fleet.Reset)), "%+v", r)
				refused++
			}
		}
		g.closed(ctx, "per_ip_limit", BeNumerically(">=", refused))
		maximums := g.logged(`address already has the configured maximum of (\d+) connections`)
		Expect(maximums).NotTo(BeEmpty())
		Expect(maximums).To(HaveEach(Or(Equal("1"), Equal("100"))))
		report.Attach(report.Figure{Name: "clients", Value: float64(storm.Stats().Begun)})
		report.Attach(report.Figure{Name: "refused", Value: float64(refused)})
		g.atRest(ctx)
		g.Set(ctx, "max.connections.per.ip=5")
		last := g.Group(clientNet, plain, "", 5)
		last.Source = group.Source
		g.fits(ctx, last)
	}, SpecTimeout(stage.Within(2*time.Minute)))
})
