package accounting

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("The kernel's count", Label("accounting"), func() {
	It("misses none of many connections that end as soon as they are there", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/16", "fd00:1::/64"), stage.Broker("socket.listen.backlog.size=4096"))
		s.NeedKernel(ctx)
		before := s.Port(ctx, "PLAINTEXT").Gauge
		own := s.Own(ctx, "PLAINTEXT")
		silent, polite := s.Group("10.1.0.0/16", "PLAINTEXT", stage.Nobody, 1), s.Group("fd00:1::/64", "PLAINTEXT", stage.Nobody, 1)
		silent.Behaviour = fleet.Silent
		f := s.NewFleet()
		rush, stop := context.WithTimeout(ctx, 4*time.Second)
		defer stop()
		Expect(f.Churn(rush, fleet.Churn{
			Plan: fleet.Plan{Rate: float64(stage.Scale(800)), Groups: []fleet.Group{silent, polite}},
			Hold: time.Nanosecond, How: []fleet.How{fleet.RST, fleet.FIN}, Seed: uint64(GinkgoRandomSeed()),
		})).To(Succeed())
		Eventually(f.UpCount).WithContext(ctx).WithTimeout(20 * time.Second).Should(BeZero())
		stats := f.Stats()
		report.Attach(report.Figure{Name: "connections", Value: float64(stats.Connected)})
		Expect(stats.Connected).To(BeNumerically(">", stage.Scale(100)))
		Eventually(func() int64 { return s.Port(ctx, "PLAINTEXT").Gauge.Established }).
			WithContext(ctx).WithTimeout(30 * time.Second).Should(Equal(own))
		after := s.Port(ctx, "PLAINTEXT")
		Expect(after.Gauge.Opened-before.Opened).To(BeEquivalentTo(stats.Connected), "opened, of what clients connected (%d overflows)", after.Overflows)
		Expect(after.Gauge.Closed-before.Closed).To(BeEquivalentTo(stats.Connected), "closed")
		Expect(s.Kernel(ctx).Lost).To(BeEmpty())
	}, SpecTimeout(stage.Within(2*time.Minute)))

	It("is the broker's own again after resets from one address, half of them in the TLS handshake", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24"), stage.Broker("socket.listen.backlog.size=4096"))
		s.NeedKernel(ctx)
		whole := s.Group("10.1.0.0/24", "SSL", "alice", 1)
		whole.Source = s.Network("10.1.0.0/24").At("10.1.0.99")
		half := whole
		half.Behaviour = fleet.HalfHello
		f := s.NewFleet()
		rush, stop := context.WithTimeout(ctx, 3*time.Second)
		defer stop()
		Expect(f.Churn(rush, fleet.Churn{
			Plan: fleet.Plan{Rate: float64(stage.Scale(350)), Groups: []fleet.Group{whole, half}},
			Hold: time.Nanosecond, How: []fleet.How{fleet.RST}, Seed: uint64(GinkgoRandomSeed()),
		})).To(Succeed())
		Eventually(f.UpCount).WithContext(ctx).WithTimeout(20 * time.Second).Should(BeZero())
		connected := f.Stats().Connected
		report.Attach(report.Figure{Name: "connections", Value: float64(connected)})
		Eventually(s.Connections).WithContext(ctx).WithTimeout(30 * time.Second).Should(BeEmpty())
		Eventually(func() int64 { return s.Port(ctx, "SSL").Gauge.Established }).WithContext(ctx).WithTimeout(30 * time.Second).Should(BeZero())
		port := s.Port(ctx, "SSL")
		Expect(port.Gauge.Opened).To(BeEquivalentTo(connected))
		Expect(port.Gauge.Closed).To(BeEquivalentTo(connected))
		Expect(port.Broker).NotTo(BeNil())
		Expect(port.Broker.Accepted).To(BeNumerically("<=", connected), "some are gone before they are accepted")
		Expect(port.Broker.Closed).To(Equal(port.Broker.Accepted))
		Expect([]int64{port.Broker.Listed, port.Broker.Handshaking, port.Broker.Held, port.Broker.Queued}).To(HaveEach(BeZero()))
		Expect(s.Reconcile(ctx)).To(stage.BeExplained())
	}, SpecTimeout(stage.Within(2*time.Minute)))
})
