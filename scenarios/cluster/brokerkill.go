package cluster

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A cluster", Label("cluster"), stage.Needs(stage.Faces), func() {
	It("loses nothing when a broker is killed, does without it, and takes it in again", func(ctx SpecContext) {
		s := three(ctx)
		l := begin(ctx, s)
		gone := s.Broker(2)
		Expect(gone.Node().Kill(ctx)).To(Succeed())
		at := time.Now()
		Eventually(s.Broker(1).Faces).WithContext(ctx).WithTimeout(patience).Should(Equal([]int32{1, 3}), "who has an address")
		report.Attach(report.Figure{Name: "a killed broker is named no more after", Value: time.Since(at).Seconds(), Unit: "s"})
		before := l.acknowledged()
		Eventually(l.acknowledged).WithContext(ctx).WithTimeout(patience).Should(BeNumerically(">", before), "others go on")
		rule := mark(ctx, s.Broker(3), "while-broker2-was-away")

		Expect(gone.Node().Start(ctx)).To(Succeed())
		at = time.Now()
		Eventually(s.Broker(1).Faces).WithContext(ctx).WithTimeout(patience).Should(Equal([]int32{1, 2, 3}), "who has an address")
		report.Attach(report.Figure{Name: "and again after its start", Value: time.Since(at).Seconds(), Unit: "s"})
		everywhere(ctx, s, rule)
		l.finish(ctx)
	}, SpecTimeout(4*time.Minute))
})
