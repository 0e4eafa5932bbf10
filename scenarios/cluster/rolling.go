package cluster

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A cluster", Label("cluster"), stage.Needs(stage.Faces), func() {
	It("is upgraded one broker after another under load, and then to rules for ranges of addresses", func(ctx SpecContext) {
		const older, level = "supported.metadata.version.max", "4.3-IV0"
		s := three(ctx, stage.Broker(older+"="+level, "metadata.version="+level))
		l := begin(ctx, s)
		ranges := "allow carol READ Topic:" + topic + " from 10.1.0.0/24"
		for _, b := range s.All() {
			Expect(s.Upgrade(ctx, "4.4-IV1")).NotTo(BeZero(), "while %s is of the older version", b.Name())
			b.Rewrite(older, "")
			Expect(b.Node().Restart(ctx)).To(Succeed())
			Eventually(b.Ping).WithContext(ctx).WithTimeout(patience).Should(Succeed())
			l.flows(ctx)
		}
		Expect(s.Create(ctx, stage.Rule(ranges))[0].Text).To(ContainSubstring("CIDR"))
		Eventually(func() stage.Refusal { return s.Upgrade(ctx, "4.4-IV1") }).WithContext(ctx).WithTimeout(patience).Should(BeZero())
		s.Grant(ctx, ranges)
		everywhere(ctx, s, ranges)
		for _, b := range s.All() { // once more, at the new level
			Expect(b.Node().Restart(ctx)).To(Succeed())
			Eventually(b.Ping).WithContext(ctx).WithTimeout(patience).Should(Succeed())
			l.flows(ctx)
		}
		everywhere(ctx, s, ranges)
		l.finish(ctx)
	}, SpecTimeout(5*time.Minute))
})
