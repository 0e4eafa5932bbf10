package limits

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("max.ssl.connections", Label("limits"), stage.Needs(stage.MaxSSL), func() {
	It("lets the next TLS client connect and wait, unanswered, until another leaves, while plaintext clients come and go", func(ctx SpecContext) {
		g := newGround(ctx, "max.ssl.connections=2")
		w := g.watch(ctx, 2, ssl, saslSSL)
		inside := g.in(ctx, g.Group(clientNet, ssl, "alice", 2))
		third := g.waiter(ctx, clientNet, ssl, "bob")
		g.held(ctx, ssl)
		for range 3 {
			others := g.in(ctx, g.Group(clientNet, plain, "", 20), g.Group(otherNet, saslPlain, "alice", 20))
			leave(others, 0, fleet.FIN)
		}
		unanswered(third)
		g.counts(ctx, counts{2, 2})

		By("one leaves")
		leave(inside, 1, fleet.FIN)
		admitted(ctx, third, 1)
		Expect(third.Records()[0].TLS).To(BeNumerically(">", 0))
		w.end(ctx, "")
		leave(third, 0, fleet.FIN)
		leave(inside, 0, fleet.FIN)
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(2*time.Minute)))
})
