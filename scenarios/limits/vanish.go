package limits

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("2,000 clients whose network is gone", Label("limits"), func() {
	It("hold their slots, with their age in the list, until they idle out; then others have them, and counts are exact", func(ctx SpecContext) {
		crowd := stage.Scale(2000)
		g := newGround(ctx, tlsLimit()+"="+text(crowd), "connections.max.idle.ms=6000", "socket.listen.backlog.size=4096")
		w := g.watch(ctx, crowd, tlsListeners()...)
		// Silent at a TLS port, so that two thousand handshakes are not what is tried here; a few are whole.
		silent := g.Group(clientNet, ssl, "", crowd-10)
		silent.Behaviour = fleet.Silent
		gone := g.in(ctx, silent, g.Group(clientNet, ssl, "alice", 10))
		g.CutOff(ctx, clientNet)
		g.counts(ctx, counts{crowd, crowd})
		if stage.Has(stage.Listing) {
			rows := g.Describe(ctx, admin.DescribeFilter{})
			Expect(rows).To(HaveLen(crowd))
			Expect(rows).To(HaveEach(HaveField("ConnectedSince", BeNumerically(">", 0))))
		}
		begin := time.Now()
		others := g.come(ctx, fleet.Plan{Groups: []fleet.Group{g.Group(otherNet, ssl, "bob", 50)}})
		Eventually(others.UpCount).WithContext(ctx).WithTimeout(time.Minute).Should(Equal(50))
		report.Attach(report.Figure{Name: "until others had their slots", Value: round(time.Since(begin).Seconds()), Unit: "s", Note: "connections.max.idle.ms is 6 s"})
		g.closed(ctx, "idle", BeNumerically(">=", crowd))
		w.end(ctx, "")
		leave(gone, 0, fleet.Vanish)
		leave(others, 0, fleet.FIN)
		if stage.Target().IsKafka() { // each of its network threads expires one connection each time that it looks, which is every 300 ms if nobody speaks
			Eventually(func() int { return len(g.Connections(ctx)) }).WithContext(ctx).WithTimeout(5*time.Minute).Should(BeZero(), "idled out")
		}
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(2*time.Minute)))
})
