package limits

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("Two limits that are full", Label("limits"), stage.Needs(stage.MaxSSL), func() {
	It("keep a TLS client waiting when a plaintext one leaves, until a TLS one does", func(ctx SpecContext) {
		g := newGround(ctx, "listener.name.internal.max.connections=1000")
		g.Set(ctx, fmt.Sprintf("max.connections=%d", 5+g.own(ctx)), "max.ssl.connections=2")
		w := g.watch(ctx, 2, ssl, saslSSL)
		tls, clean := g.in(ctx, g.Group(clientNet, ssl, "alice", 2)), g.in(ctx, g.Group(clientNet, plain, "", 3))
		next := g.waiter(ctx, otherNet, saslSSL, "bob")
		g.held(ctx, saslSSL)
		g.counts(ctx, counts{5, 2})
		leave(clean, 1, fleet.FIN)
		g.counts(ctx, counts{4, 2})
		again := g.in(ctx, g.Group(otherNet, plain, "", 1)) // there is a place, and not for TLS
		unanswered(next)

		By("the other way round: a place that TLS frees is anybody's who may have it")
		late := g.waiter(ctx, otherNet, plain, "")
		g.held(ctx, plain)
		leave(again, 1, fleet.FIN)
		admitted(ctx, late, 1)
		unanswered(next)
		leave(tls, 1, fleet.FIN)
		admitted(ctx, next, 1)
		g.counts(ctx, counts{5, 2})
		w.end(ctx, "TLS")
		for _, f := range []*fleet.Fleet{tls, clean, next, late} {
			leave(f, 0, fleet.FIN)
		}
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(time.Minute)))
})
