package limits

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("AcceptorBlockedPercent", Label("limits"), stage.Needs(stage.MaxSSL, stage.Metrics), func() {
	It("moves for the TLS listener whose acceptor waited for a slot, when the wait is over, and for no other", func(ctx SpecContext) {
		g := newGround(ctx, "max.ssl.connections=1")
		inside := g.in(ctx, g.Group(clientNet, ssl, "alice", 1))
		begin := time.Now()
		next := g.waiter(ctx, clientNet, ssl, "bob")
		g.held(ctx, ssl)
		between := time.Now()
		leave(g.in(ctx, g.Group(clientNet, plain, "", 50), g.Group(clientNet, saslPlain, "alice", 10)), 0, fleet.FIN)
		Expect(g.blocked(ctx, ssl)).To(BeZero(), "it still waits")
		waited := time.Since(between)
		leave(inside, 0, fleet.FIN)
		admitted(ctx, next, 1)
		Expect(g.blocked(ctx, ssl)).To(And(BeNumerically(">=", waited.Nanoseconds()), BeNumerically("<=", time.Since(begin).Nanoseconds())))
		for _, other := range []string{internal, plain, saslPlain, saslSSL} {
			Expect(g.blocked(ctx, other)).To(BeZero(), other)
		}
		leave(next, 0, fleet.FIN)
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(time.Minute)))
})
