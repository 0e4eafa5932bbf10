package limits

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("ConnectionsCount and SslConnectionsCount", Label("limits"), stage.Needs(stage.MaxSSL, stage.Metrics), func() {
	It("are the truth after clients came, left, were reset, failed, were refused and were held back", func(ctx SpecContext) {
		g := newGround(ctx, "max.connections.per.ip.overrides=10.1.200.1:1", "quota.window.num=2", "max.ssl.connections=1000")
		g.counts(ctx, counts{})

		By("they come")
		tls := g.in(ctx, g.Group(clientNet, ssl, "alice", 3), g.Group(clientNet, saslSSL, "bob", 3))
		clean := g.in(ctx, g.Group(clientNet, plain, "", 4), g.Group(clientNet, saslPlain, "bob", 2))
		g.counts(ctx, counts{12, 6})

		By("some leave, some reset")
		leave(tls, 1, fleet.FIN)
		leave(clean, 1, fleet.FIN)
		g.counts(ctx, counts{10, 5})
		leave(tls, 2, fleet.RST)
		leave(clean, 2, fleet.RST)
		g.counts(ctx, counts{6, 3})

		By("handshakes fail on either side")
		distrust := g.Group(clientNet, ssl, "alice", 5)
		distrust.TLS.ServerName = "somebody.else"
		garbage := g.Group(clientNet, saslSSL, "alice", 5)
		garbage.Behaviour, garbage.Payload = fleet.Raw, []byte("GET / HTTP/1.1\r\n\r\n")
		failing := g.Fleet(ctx, distrust, garbage)
		Eventually(failing.UpCount).WithContext(ctx).WithTimeout(patience).Should(BeZero())
		Eventually(g.Closed).WithContext(ctx).WithTimeout(patience).Should(And(
			HaveKeyWithValue("tls_failed", 5), HaveKeyWithValue("plaintext_on_tls", 5)))
		g.counts(ctx, counts{6, 3})

		By("an address has its maximum")
		single := g.Group(clientNet, ssl, "alice", 1)
		single.Source = g.Network(clientNet).At("10.1.200.1")
		first := g.in(ctx, single)
		g.counts(ctx, counts{7, 4})
		single.Count = 3
		refused := g.Fleet(ctx, single)
		Expect(refused.Records()).To(HaveEach(HaveField("Outcome", Or(Equal(fleet.ClosedByBroker), Equal(fleet.Reset)))))
		Expect(g.Closed(ctx)).To(HaveKeyWithValue("per_ip_limit", 3))
		g.counts(ctx, counts{7, 4})
		leave(first, 0, fleet.FIN)
		g.counts(ctx, counts{6, 3})

		By("an address is too fast: what is held back is not counted")
		g.rate(ctx, "10.1.200.2", 1)
		hasty := g.Group(clientNet, saslSSL, "bob", 8)
		hasty.Source = g.Network(clientNet).At("10.1.200.2")
		crowd := g.come(ctx, fleet.Plan{Groups: []fleet.Group{hasty}})
		Eventually(func(eventually Gomega) {
			port := g.Port(ctx, saslSSL)
			now := g.counted(ctx)
			eventually.Expect(port.Broker.Held).To(BeNumerically(">", 0))
			eventually.Expect(now.ssl).To(BeNumerically("<=", 3+2), "with %d held", port.Broker.Held)
		}).WithContext(ctx).WithTimeout(patience).WithPolling(5 * time.Millisecond).Should(Succeed())
		in := 0
		Eventually(func() int {
			s := crowd.Stats()
			in = s.Up
			return s.Up + s.Outcomes[fleet.ClosedByBroker] + s.Outcomes[fleet.Reset]
		}).WithContext(ctx).WithTimeout(patience).Should(Equal(8), "each is in, or was held and closed")
		Expect(in).To(BeNumerically("<=", 2), "at 1 a second with two windows")
		Expect(g.Closed(ctx)).To(HaveKeyWithValue("per_ip_rate", 8-in))
		g.counts(ctx, counts{6 + in, 3 + in})

		for _, f := range []*fleet.Fleet{tls, clean, crowd} {
			leave(f, 0, fleet.FIN)
		}
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(2*time.Minute)))
})
