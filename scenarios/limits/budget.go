package limits

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("max.ssl.connections", Label("limits"), stage.Needs(stage.MaxSSL), func() {
	It("is one budget for SSL and SASL_SSL together", func(ctx SpecContext) {
		g := newGround(ctx, "max.ssl.connections=4")
		w := g.watch(ctx, 4, ssl, saslSSL)
		certified := g.in(ctx, g.Group(clientNet, ssl, "alice", 2))
		authenticated := g.in(ctx, g.Group(clientNet, saslSSL, "bob", 2))
		overSSL, overSASL := g.waiter(ctx, otherNet, ssl, "bob"), g.waiter(ctx, otherNet, saslSSL, "alice")
		g.held(ctx, ssl)
		g.held(ctx, saslSSL)
		g.counts(ctx, counts{4, 4})
		Expect(g.Reconcile(ctx)).To(stage.BeExplained(), "those that wait have a class")

		By("one leaves, of whichever kind: one of those that wait comes in")
		leave(certified, 1, fleet.FIN)
		both := func() int { return overSSL.UpCount() + overSASL.UpCount() }
		Eventually(both).WithContext(ctx).WithTimeout(patience).Should(Equal(1))
		g.counts(ctx, counts{4, 4})
		Expect(both()).To(Equal(1))
		leave(authenticated, 1, fleet.RST)
		Eventually(both).WithContext(ctx).WithTimeout(patience).Should(Equal(2))
		g.counts(ctx, counts{4, 4})
		w.end(ctx, "")
		for _, f := range []*fleet.Fleet{certified, authenticated, overSSL, overSASL} {
			leave(f, 0, fleet.FIN)
		}
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(2*time.Minute)))
})
