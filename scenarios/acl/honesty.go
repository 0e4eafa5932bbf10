package acl

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// everyQuestion is one of each kind.
func everyQuestion() []question {
	return known(
		read("orders"), write("orders"), describe("orders"), join("g"), describeGroup("g"), idempotent(), transactional("t"), listing(), create("new"),
	)
}

// wrongly tells what the check of an expectation says that is to be wrong.
func wrongly(ctx SpecContext, p *people, q question, want ...string) []string {
	return InterceptGomegaFailures(func() { new(decisions).check(ctx, "a wrong expectation", p, q, want...) })
}

var _ = Describe("This suite", Label("acl"), func() {
	It("catches a broker that lets everybody in", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet(net4)) // without an authorizer
		s.CreateTopic(ctx, "orders", 1)
		p := from(ctx, s, net4, "alice", "10.1.7.0", "10.1.8.0")
		for _, q := range everyQuestion() {
			Expect(wrongly(ctx, p, q, "10.1.7.0")).To(ContainElement(ContainSubstring("10.1.8.0")), "%T", q.request)
		}
	}, SpecTimeout(stage.Within(time.Minute)))

	It("catches a broker that lets nobody in, one that looks at no address, and a wrong expectation", stage.Needs(stage.Ranges), func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4))
		s.CreateTopic(ctx, "orders", 1)
		p := from(ctx, s, net4, "alice", "10.1.7.0", "10.1.8.0")
		for _, q := range everyQuestion() {
			Expect(wrongly(ctx, p, q, "10.1.7.0")).NotTo(BeEmpty(), "%T", q.request)
		}
		s.Grant(ctx, "allow alice READ Topic:orders from 10.1.7.0/24", "allow alice WRITE Topic:orders")
		for _, wrong := range [][]string{{"10.1.7.0", "10.1.8.0"}, {}, {"10.1.8.0"}} {
			Expect(wrongly(ctx, p, read("orders"), wrong...)).NotTo(BeEmpty(), "%v", wrong)
		}
		Expect(wrongly(ctx, p, write("orders"), "10.1.7.0")).NotTo(BeEmpty(), "this rule is for every address")
		Expect(wrongly(ctx, p, read("orders"), "10.1.7.0")).To(BeEmpty(), "and this is right")
	}, SpecTimeout(stage.Within(time.Minute)))
})
