package cluster

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A cluster", Label("cluster"), stage.Needs(stage.Faces), func() {
	It("fences a broker that is cut off from its engine and log, and takes it back once it has caught up", func(ctx SpecContext) {
		s := three(ctx)
		l := begin(ctx, s)
		lone := s.Broker(3)
		heal := lone.Cut(ctx, "engine")
		at := time.Now()
		Eventually(s.Broker(1).Faces).WithContext(ctx).WithTimeout(patience).Should(Equal([]int32{1, 2}), "who has an address")
		report.Attach(report.Figure{Name: "a broker that is cut off is named no more after", Value: time.Since(at).Seconds(), Unit: "s"})
		// At a listener for clients: the one for brokers stays open.
		Eventually(func() error { return lone.Knock(ctx, office, "SASL_PLAINTEXT") }).WithContext(ctx).WithTimeout(patience).
			ShouldNot(Succeed(), "a broker that knows itself fenced takes no new client")
		Expect(lone.Closed(ctx)).To(HaveKeyWithValue("fenced", BeNumerically(">", 0)), "why it closed connections")
		rule := mark(ctx, s.Broker(1), "while-broker3-was-cut-off")

		heal(ctx)
		at = time.Now()
		Eventually(s.Broker(1).Faces).WithContext(ctx).WithTimeout(patience).Should(Equal([]int32{1, 2, 3}), "who has an address")
		report.Attach(report.Figure{Name: "and again after the heal", Value: time.Since(at).Seconds(), Unit: "s"})
		Eventually(func() error { return lone.Knock(ctx, office, "SASL_PLAINTEXT") }).WithContext(ctx).WithTimeout(patience).Should(Succeed(), "it takes them again")
		everywhere(ctx, s, rule)
		l.finish(ctx)
	}, SpecTimeout(4*time.Minute))
})
