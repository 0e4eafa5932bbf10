package accounting

import (
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// comeback is how clients came back after a restart.
type comeback struct {
	overflows, drops int64 // because of a full accept queue, and for whatever reason, on the broker's machine
	counted          int64 // what was dropped at the listener alone
	p50, p99         int64 // microseconds until they are served again
}

// comeBack lets count clients lose their broker and connect again to the restarted one, which is busy for busy before it accepts.
func comeBack(ctx SpecContext, backlog, count int, busy time.Duration) comeback {
	GinkgoHelper()
	const network = "10.1.0.0/16"
	s := stage.New(ctx, stage.Subnet(network), stage.Broker(fmt.Sprintf("socket.listen.backlog.size=%d", backlog)))
	group := s.Group(network, "PLAINTEXT", stage.Nobody, count)
	plan := fleet.Plan{Groups: []fleet.Group{group}, Parallel: 32}
	first := s.Open(ctx, plan)
	stage.AllUp(first)
	Expect(s.Node().Kill(ctx)).To(Succeed())
	Eventually(first.UpCount).WithContext(ctx).WithTimeout(20 * time.Second).Should(BeZero())
	Expect(s.Node().Start(ctx)).To(Succeed())
	Eventually(s.Ping).WithContext(ctx).WithTimeout(30 * time.Second).Should(Succeed())

	s.NeedKernel(ctx)
	overflows, drops := s.Overflows(ctx)
	counted := s.Port(ctx, "PLAINTEXT").Overflows
	thaw := s.Freeze(ctx)
	again := s.NewFleet()
	plan.Parallel, plan.Timeout = 300, time.Minute // a SYN that is dropped is sent again after 1, 3, 7, 15 and 31 s
	var opening sync.WaitGroup
	opening.Go(func() {
		defer GinkgoRecover()
		Expect(again.Add(ctx, plan)).To(Succeed())
	})
	timer := time.NewTimer(busy)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	thaw()
	opening.Wait()
	Eventually(again.UpCount).WithContext(ctx).WithTimeout(time.Minute).Should(Equal(count), "every client comes back")
	moreOverflows, moreDrops := s.Overflows(ctx)
	ready := again.Latencies()[fleet.ReadyLatency]
	label := fmt.Sprintf("backlog %d: ", backlog)
	c := comeback{
		overflows: moreOverflows - overflows, drops: moreDrops - drops, counted: s.Port(ctx, "PLAINTEXT").Overflows - counted,
		p50: ready.ValueAtQuantile(50), p99: ready.ValueAtQuantile(99),
	}
	report.Attach(report.Figure{Name: label + "ListenOverflows", Value: float64(c.overflows)})
	report.Attach(report.Figure{Name: label + "ListenDrops", Value: float64(c.drops)})
	report.Attach(report.Figure{Name: label + "served again, p50", Value: float64(c.p50 / 1000), Unit: "ms"})
	report.Attach(report.Figure{Name: label + "served again, p99", Value: float64(c.p99 / 1000), Unit: "ms", Note: fmt.Sprintf("the broker was busy for %v", busy)})
	report.Attach(report.NewLatency(label+"until a client was served again", ready))
	GinkgoWriter.Printf("backlog %d: %+v\n", backlog, c)
	return c
}

var _ = Describe("After a restart", Label("accounting"), func() {
	It("2,000 clients that come back, 300 at a time, overflow a backlog of 50, and the count misses no overflow", func(ctx SpecContext) {
		count := stage.Scale(2000)
		c := comeBack(ctx, 50, count, 500*time.Millisecond)
		if count > 300 {
			Expect(c.overflows).To(BeNumerically(">", 0))
		}
		Expect(c.drops).To(BeNumerically(">=", c.overflows))
		// The machine's counters may lose an increment to another on the same processor, the listener's may not.
		Expect(c.counted).To(BeNumerically(">=", c.overflows), "dropped at the listener, of all overflows of its machine")
	}, SpecTimeout(stage.Within(2*time.Minute)))

	It("2,000 clients that come back, 300 at a time, all find room in a backlog of 4,096", func(ctx SpecContext) {
		c := comeBack(ctx, 4096, stage.Scale(2000), 500*time.Millisecond)
		Expect(c.overflows).To(BeZero())
		Expect(c.counted).To(BeZero())
	}, SpecTimeout(stage.Within(2*time.Minute)))
})
