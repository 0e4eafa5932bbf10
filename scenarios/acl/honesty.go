package acl

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("This suite", Label("acl"), func() {
	It("catches a broker that lets everybody in, one that lets nobody in, and a wrong expectation", func(ctx SpecContext) {
		By("a broker without an authorizer")
		open := stage.New(ctx, stage.Subnet(net4))
		open.CreateTopic(ctx, "orders", 1)
		p := from(ctx, open, net4, "alice", "10.1.7.0", "10.1.8.0")
		for _, q := range []question{read("orders"), write("orders"), describe("orders"), join("g"), describeGroup("g"), idempotent(), transactional("t"), listing(), create("new")} {
			Expect(InterceptGomegaFailures(func() {
				new(decisions).check(ctx, "only the first", p, q, "10.1.7.0")
			})).To(ContainElement(ContainSubstring("10.1.8.0")), "%T", q.request)
		}

		By("one without rules")
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4))
		s.CreateTopic(ctx, "orders", 1)
		p = from(ctx, s, net4, "alice", "10.1.7.0", "10.1.8.0")
		for _, q := range []question{read("orders"), write("orders"), describe("orders"), join("g"), describeGroup("g"), idempotent(), transactional("t"), listing(), create("new")} {
			Expect(InterceptGomegaFailures(func() {
				new(decisions).check(ctx, "only the first", p, q, "10.1.7.0")
			})).NotTo(BeEmpty(), "%T", q.request)
		}

		By("one address too many, and one too few")
		s.Grant(ctx, "allow alice READ Topic:orders from 10.1.7.0/24")
		for _, wrong := range [][]string{{"10.1.7.0", "10.1.8.0"}, {}, {"10.1.8.0"}} {
			Expect(InterceptGomegaFailures(func() { new(decisions).check(ctx, "wrong", p, read("orders"), wrong...) })).NotTo(BeEmpty(), "%v", wrong)
		}
		Expect(InterceptGomegaFailures(func() { new(decisions).check(ctx, "right", p, read("orders"), "10.1.7.0") })).To(BeEmpty())
	}, SpecTimeout(time.Minute))
})
