package cluster

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A cluster", Label("cluster"), stage.Needs(stage.Faces), func() {
	It("allows nothing any more that was denied elsewhere, a moment after a broker that lagged behind its log has read on", func(ctx SpecContext) {
		s := three(ctx)
		l := begin(ctx, s)
		s.Grant(ctx, "allow carol READ Topic:"+topic)
		lags := s.Broker(3)
		Eventually(func() bool { return lags.HasRule(ctx, "allow carol READ Topic:"+topic) }).WithContext(ctx).WithTimeout(patience).Should(BeTrue())

		By("while it keeps up")
		var slowest time.Duration
		for range 20 {
			s.Broker(1).Grant(ctx, "deny carol READ Topic:"+topic)
			at := time.Now()
			Eventually(func() bool { return lags.HasRule(ctx, "deny carol READ Topic:"+topic) }).WithContext(ctx).WithTimeout(patience).WithPolling(time.Millisecond).Should(BeTrue())
			slowest = max(slowest, time.Since(at))
			everywhere(ctx, s, "deny carol READ Topic:"+topic)
			s.Broker(2).Revoke(ctx, "deny carol READ Topic:"+topic)
			for _, b := range s.All() { // a broker that has not read so far yet would take the next rule for one that is there
				Eventually(func() bool { return b.HasRule(ctx, "deny carol READ Topic:"+topic) }).WithContext(ctx).WithTimeout(patience).WithPolling(time.Millisecond).Should(BeFalse())
			}
		}
		report.Attach(report.Figure{Name: "slowest of 20 changes at another broker", Value: float64(slowest.Microseconds()) / 1000, Unit: "ms"})

		By("after it was stopped in the middle of what it did")
		thaw := lags.Freeze(ctx)
		s.Broker(1).Grant(ctx, "deny alice WRITE Topic:"+topic)
		thaw()
		at := time.Now()
		Eventually(func() bool { return lags.HasRule(ctx, "deny alice WRITE Topic:"+topic) }).WithContext(ctx).WithTimeout(patience).WithPolling(time.Millisecond).Should(BeTrue())
		report.Attach(report.Figure{Name: "a broker that was stopped knows after", Value: float64(time.Since(at).Microseconds()) / 1000, Unit: "ms"})
		Expect(refused(ctx, s)).To(BeTrue(), "a record by someone who may not write any more")
		s.Revoke(ctx, "deny alice WRITE Topic:"+topic)
		for _, b := range s.All() {
			Eventually(func() bool { return b.HasRule(ctx, "deny alice WRITE Topic:"+topic) }).WithContext(ctx).WithTimeout(patience).Should(BeFalse())
		}
		l.finish(ctx)
	}, SpecTimeout(4*time.Minute))
})

// refused tells whether every partition refuses a record of alice's.
func refused(ctx context.Context, s *stage.Stage) bool {
	GinkgoHelper()
	p := s.Client(office, "10.1.0.40", "SASL_PLAINTEXT", "alice", append(fault(), kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	defer p.Close()
	all := true
	for i := range int32(partitions) {
		err := p.ProduceSync(ctx, &kgo.Record{Partition: i, Value: []byte("refused")}).FirstErr()
		all = all && err != nil
	}
	return all
}
