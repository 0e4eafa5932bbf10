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

var _ = Describe("Clients that connect and reset", Label("limits"), func() {
	It("cost no slot, a thousand from one address, half of them in the middle of a handshake", func(ctx SpecContext) {
		g := newGround(ctx, tlsLimit()+"=50", "max.connections.per.ip=60")
		w := g.watch(ctx, 50, tlsListeners()...)
		silent, half := g.Group(clientNet, ssl, "", 1), g.Group(clientNet, ssl, "", 1)
		silent.Behaviour, half.Behaviour = fleet.Silent, fleet.HalfHello
		silent.Source = g.Network(clientNet).At("10.1.0.10")
		half.Source = silent.Source
		storm := g.NewFleet()
		going, stop := context.WithCancel(ctx)
		defer stop()
		var coming sync.WaitGroup
		coming.Go(func() {
			defer GinkgoRecover()
			Expect(storm.Churn(going, fleet.Churn{
				Plan: fleet.Plan{Groups: []fleet.Group{silent, half}, Rate: 2000}, How: []fleet.How{fleet.RST},
			})).To(Succeed())
		})
		least := counts{}
		Eventually(func() int {
			if stage.Has(stage.Metrics) {
				m := g.Metrics(ctx)
				least.total, least.ssl = min(least.total, int(m[totalSeries])), min(least.ssl, int(m[sslSeries]))
			}
			return storm.Stats().Connected
		}).WithContext(ctx).WithTimeout(patience).Should(BeNumerically(">", stage.Scale(2000)))
		stop()
		coming.Wait()
		Expect(least).To(Equal(counts{}), "a count was negative")
		report.Attach(report.Figure{Name: "connections that were reset", Value: float64(storm.Stats().Connected)})
		leave(storm, 0, fleet.RST)
		w.end(ctx, "")
		g.atRest(ctx)
		g.fits(ctx, g.Group(otherNet, ssl, "alice", 50))
	}, SpecTimeout(stage.Within(2*time.Minute)))

	It("leave no file and no CLOSE_WAIT when they do so before they are accepted", func(ctx SpecContext) {
		g := newGround(ctx, tlsLimit()+"=5", "max.connections.per.ip=10")
		thaw := g.Freeze(ctx)
		for _, how := range []fleet.How{fleet.RST, fleet.FIN} {
			var groups []fleet.Group
			for _, listener := range []string{plain, ssl} {
				group := g.Group(clientNet, listener, "", 20)
				group.Behaviour, group.Source = fleet.Silent, g.Network(clientNet).At("10.1.0.10")
				groups = append(groups, group)
			}
			early := g.in(ctx, groups...)
			leave(early, 0, how)
		}
		Expect(g.Listener(ctx, ssl).Queue).To(BeNumerically("==", 40), "nobody was accepted")
		thaw()
		g.atRest(ctx)
		Expect(g.CloseWait(ctx)).To(BeZero())
		g.fits(ctx, g.Group(otherNet, ssl, "alice", 5))
	}, SpecTimeout(stage.Within(time.Minute)))

	It("by the thousand keep nobody else from being served, nor from being closed", func(ctx SpecContext) {
		g := newGround(ctx, tlsLimit()+"="+text(stage.Scale(3000)), "socket.listen.backlog.size=4096", "connections.max.idle.ms=5000")
		others := g.steadily(ctx, "steady clients'", ssl, "alice", 100)
		w := g.watch(ctx, stage.Scale(3000), tlsListeners()...)
		storm := g.Group(clientNet, ssl, "", stage.Scale(2500))
		storm.Behaviour = fleet.HalfHello
		crowd := g.Fleet(ctx, storm)
		Expect(crowd.FirstError()).NotTo(HaveOccurred())
		begin := time.Now()
		leave(crowd, crowd.UpCount()/2, fleet.FIN)
		Eventually(g.CloseWait).WithContext(ctx).WithTimeout(patience).Should(BeZero())
		report.Attach(report.Figure{Name: "until no CLOSE_WAIT was left", Value: round(time.Since(begin).Seconds() * 1000), Unit: "ms"})
		Eventually(crowd.UpCount).WithContext(ctx).WithTimeout(time.Minute).Should(BeZero(), "the others idle out")
		others.served()
		w.end(ctx, "")
		leave(others.fleet, 0, fleet.FIN)
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(2*time.Minute)))
})
