package limits

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("The listener between brokers", Label("limits"), func() {
	It("is exempt from max.ssl.connections, counts in it, and makes room for itself among the others", stage.Needs(stage.MaxSSL), func(ctx SpecContext) {
		g := newGroundOf(ctx, []string{plain + "://:9092", ssl + "://:9093", saslSSL + "://:9095"},
			"inter.broker.listener.name=SSL", "max.ssl.connections=3")
		w := g.watch(ctx, 3, saslSSL)
		clients := g.in(ctx, g.Group(clientNet, saslSSL, "alice", 3))
		brokers := g.in(ctx, g.Group(otherNet, ssl, "bob", 4))
		admitted(ctx, clients, 0)
		stage.AllUp(brokers)
		g.counts(ctx, counts{4, 4})
		Expect(g.Closed(ctx)).To(HaveKeyWithValue("evicted_max_ssl_connections", 3))

		By("a client waits until there are fewer of them than the limit")
		next := g.waiter(ctx, clientNet, saslSSL, "bob")
		g.held(ctx, saslSSL)
		leave(brokers, 1, fleet.FIN)
		g.counts(ctx, counts{3, 3})
		unanswered(next)
		leave(brokers, 1, fleet.FIN)
		admitted(ctx, next, 1)
		g.counts(ctx, counts{3, 3})
		w.end(ctx, "clients")
		leave(brokers, 0, fleet.FIN)
		leave(next, 0, fleet.FIN)
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(2*time.Minute)))

	It("is let in beyond max.connections, which costs the others their places", Label("kafka"), func(ctx SpecContext) {
		g := newGround(ctx, "max.connections=20", "listener.name.internal.max.connections=1000")
		own := int(g.own(ctx))
		w := g.watch(ctx, 20, plain, ssl, saslPlain, saslSSL)
		clients := g.in(ctx, g.Group(clientNet, plain, "", 20-own))
		g.counts(ctx, counts{20 - own, 0})
		brokers := g.in(ctx, g.Group(otherNet, internal, "", 5))
		Eventually(clients.UpCount).WithContext(ctx).WithTimeout(patience).Should(BeNumerically("<=", 15-own))
		stage.AllUp(brokers)
		Expect(clients.UpCount()).To(BeNumerically(">", 15-own-3), "a thread evicts one at a time")
		g.counts(ctx, counts{clients.UpCount() + 5, 0})
		w.end(ctx, "clients")
		leave(clients, 0, fleet.FIN)
		leave(brokers, 0, fleet.FIN)
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(2*time.Minute)))
})
