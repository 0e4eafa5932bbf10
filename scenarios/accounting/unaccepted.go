package accounting

import (
	"runtime"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("The kernel's count", Label("accounting"), func() {
	It("has clients that leave before the broker accepts them, and nothing of them stays", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24"), stage.Broker("socket.listen.backlog.size=4096"))
		s.NeedKernel(ctx)
		before, own := s.Port(ctx, "SSL"), s.Own(ctx, "SSL")
		files := s.BrokerFiles(ctx)
		thaw := s.Freeze(ctx)
		early := s.Group("10.1.0.0/24", "SSL", stage.Nobody, stage.Scale(500))
		early.Behaviour = fleet.Silent
		hello := early
		hello.Behaviour = fleet.HalfHello
		f := s.Fleet(ctx, early, hello)
		Expect(f.FirstError()).NotTo(HaveOccurred(), "the kernel takes them all into the accept queue")
		for i, how := range []fleet.How{fleet.RST, fleet.FIN} {
			_, err := f.CloseWhere(func(r fleet.Record) bool { return r.ID%2 == i }, how)
			Expect(err).NotTo(HaveOccurred())
		}
		thaw()
		Eventually(func() protocol.DescribeKernelResponseGauge {
			g := s.Port(ctx, "SSL").Gauge
			return protocol.DescribeKernelResponseGauge{Established: g.Established, Undecided: g.Undecided, TLS: g.TLS, Served: g.Served}
		}).WithContext(ctx).WithTimeout(30 * time.Second).Should(Equal(protocol.DescribeKernelResponseGauge{Established: own}))
		after := s.Port(ctx, "SSL")
		Expect(after.Gauge.Opened - before.Gauge.Opened).To(BeEquivalentTo(f.Stats().Connected))
		Expect(after.Gauge.Closed - before.Gauge.Closed).To(BeEquivalentTo(f.Stats().Connected))
		Eventually(s.Connections).WithContext(ctx).WithTimeout(30 * time.Second).Should(BeEmpty())
		Eventually(s.BrokerFiles).WithContext(ctx).WithTimeout(30*time.Second).Should(BeNumerically("<=", files), "no socket is left open")
		Expect(s.Reconcile(ctx)).To(stage.BeExplained())
	}, SpecTimeout(stage.Within(time.Minute)))

	It("shows how full the accept queue was, and what did not fit", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24"), stage.Broker("socket.listen.backlog.size=20"))
		s.NeedKernel(ctx)
		thaw := s.Freeze(ctx)
		g := s.Group("10.1.0.0/24", "PLAINTEXT", stage.Nobody, 100)
		f := s.NewFleet()
		done := make(chan struct{})
		go func() {
			defer GinkgoRecover()
			defer close(done)
			Expect(f.Add(ctx, fleet.Plan{Groups: []fleet.Group{g}})).To(Succeed())
		}()
		Eventually(func() int { return f.Stats().Begun }).WithContext(ctx).WithTimeout(20 * time.Second).Should(Equal(100))
		Eventually(func() int64 { return s.Listener(ctx, "PLAINTEXT").Queue }).WithContext(ctx).WithTimeout(20*time.Second).
			Should(And(BeNumerically(">", 20), BeNumerically("<=", 21+runtime.NumCPU())), "the queue holds one more than its limit, and what processors add at once")
		Eventually(func() int64 { return s.Listener(ctx, "PLAINTEXT").Drops }).WithContext(ctx).WithTimeout(20 * time.Second).
			Should(BeNumerically(">", 0))
		thaw()
		Eventually(done).WithContext(ctx).WithTimeout(time.Minute).Should(BeClosed())
		stage.AllUp(f)
		k := s.Port(ctx, "PLAINTEXT")
		Expect(k.Backlog).To(BeEquivalentTo(20))
		Expect(k.AcceptQueue).To(BeZero())
		Expect(k.Overflows).To(BeNumerically(">", 0))
		report.Attach(report.Figure{Name: "dropped because the accept queue was full", Value: float64(k.Overflows), Note: "each is tried again by its client"})
		Expect(s.Reconcile(ctx)).To(stage.BeExplained())
	}, SpecTimeout(stage.Within(2*time.Minute)))
})
