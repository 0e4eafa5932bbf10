package limits

import (
	"net/netip"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A listener that is added and removed while TLS clients have all their slots", Label("limits"), stage.Needs(stage.MaxSSL), func() {
	It("keeps SslConnectionsCount the truth, as SSL, then as PLAINTEXT, then as SSL again", func(ctx SpecContext) {
		const port = 9096
		protocols := "listener.security.protocol.map=INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,PARTNERS:"
		g := newGroundOf(ctx, standard(), "max.ssl.connections=5", protocols+"SSL")
		partners := func(like, user string, count int) fleet.Group {
			group := g.Group(clientNet, like, user, count)
			group.Target = netip.AddrPortFrom(group.Target.Addr(), port)
			return group
		}
		w := g.watch(ctx, 5, ssl, saslSSL)
		staying := g.in(ctx, g.Group(otherNet, ssl, "alice", 2))
		for _, protocol := range []string{ssl, plain, ssl} {
			By("as " + protocol)
			g.Set(ctx, protocols+protocol, "listeners="+strings.Join(standard(), ",")+",PARTNERS://:9096")
			var there *fleet.Fleet
			user, tls := stage.Nobody, 0
			if protocol == ssl {
				user, tls = "bob", 3
			}
			Eventually(func() error { // the listener opens a moment after the alteration is stored
				there = g.NewFleet()
				Expect(there.Add(ctx, fleet.Plan{Groups: []fleet.Group{partners(protocol, user, 3)}})).To(Succeed())
				return there.FirstError()
			}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
			g.counts(ctx, counts{5, 2 + tls})
			var held *fleet.Fleet
			if protocol == ssl {
				held = g.come(ctx, fleet.Plan{Groups: []fleet.Group{partners(ssl, "alice", 1)}})
				Eventually(func() int { return held.Stats().Connected }).WithContext(ctx).WithTimeout(patience).Should(Equal(1))
				unanswered(held)
			}
			g.Unset(ctx, "listeners")
			Eventually(there.UpCount).WithContext(ctx).WithTimeout(patience).Should(BeZero(), "its connections end with it")
			if held != nil {
				Eventually(func() error { return held.FirstError() }).WithContext(ctx).WithTimeout(patience).Should(HaveOccurred(), "and who waited")
			}
			g.counts(ctx, counts{2, 2})
			stage.AllUp(staying)
		}
		w.end(ctx, "")
		leave(staying, 0, fleet.FIN)
		g.atRest(ctx)
		g.fits(ctx, g.Group(otherNet, saslSSL, "alice", 5))
	}, SpecTimeout(stage.Within(2*time.Minute)))
})
