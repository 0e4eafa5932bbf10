package listing

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("The list of connections", Label("listing"), stage.Needs(stage.Listing), func() {
	It("shows 5,000 sockets that never finish a handshake until they idle out, while others are served", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/16", "10.2.0.0/24"),
			stage.Broker("connections.max.idle.ms=8000", "socket.listen.backlog.size=4096"))
		steady := s.Group("10.2.0.0/24", "SSL", "alice", 20)
		steady.Behaviour, steady.Every = fleet.Metadata, 100*time.Millisecond
		served := s.Fleet(ctx, steady)
		stage.AllUp(served)
		quiet := served.Latencies()[fleet.RequestLatency]

		silent := s.Group("10.1.0.0/16", "SSL", stage.Nobody, stage.Scale(2500))
		silent.Behaviour = fleet.Silent
		half := s.Group("10.1.0.0/16", "SSL", stage.Nobody, stage.Scale(2500))
		half.Behaviour = fleet.HalfHello
		hostile := s.Fleet(ctx, silent, half)
		Expect(hostile.FirstError()).NotTo(HaveOccurred())
		Eventually(func() []string { return differences(append(hostile.Up(), served.Up()...), s.Connections(ctx)) }).
			WithContext(ctx).WithTimeout(30*time.Second).Should(BeEmpty(), "all are accepted and listed")
		report.Attach(report.Figure{Name: "of them listed at once", Value: float64(hostile.UpCount())})
		Expect(s.Reconcile(ctx)).To(stage.BeExplained())
		late := s.Fleet(ctx, s.Group("10.2.0.0/24", "SSL", "bob", 20))
		Expect(late.FirstError()).NotTo(HaveOccurred(), "clients that come now are served")

		Eventually(hostile.UpCount).WithContext(ctx).WithTimeout(60 * time.Second).Should(BeZero())
		stage.AllUp(served)
		report.Attach(report.Figure{Name: "silent sockets", Value: float64(hostile.Stats().Connected)})
		report.Attach(report.Figure{Name: "request p99 of the others before", Value: p99(quiet), Unit: "ms"})
		report.Attach(report.Figure{Name: "request p99 of the others in all", Value: p99(served.Latencies()[fleet.RequestLatency]), Unit: "ms"})
		for _, r := range hostile.Records() {
			Expect(r.Outcome).To(Or(Equal(fleet.ClosedByBroker), Equal(fleet.Reset)), "%+v", r)
		}
		Expect(s.Closed(ctx)).To(HaveKeyWithValue("idle", BeNumerically(">=", hostile.Stats().Connected)))
		Eventually(func() int { return len(s.Connections(ctx)) }).WithContext(ctx).WithTimeout(30 * time.Second).
			Should(BeNumerically("<=", 40))
	}, SpecTimeout(3*time.Minute))
})
