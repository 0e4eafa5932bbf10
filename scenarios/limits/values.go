package limits

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("max.ssl.connections", Label("limits"), stage.Needs(stage.MaxSSL), func() {
	It("refuses values that make no sense, keeps what it was, and is unlimited again when it is deleted", func(ctx SpecContext) {
		const invalidRequest = 42
		g := newGround(ctx)
		g.Set(ctx, "max.ssl.connections=2")
		for value, text := range map[string]string{
			"-1":         "Invalid value -1 for configuration max.ssl.connections: Value must be at least 0",
			"abc":        "Invalid value abc for configuration max.ssl.connections: Not a number of type INT",
			"2147483648": "Invalid value 2147483648 for configuration max.ssl.connections: Not a number of type INT",
		} {
			Expect(g.TrySet(ctx, "max.ssl.connections="+value)).To(Equal(stage.Refusal{Code: invalidRequest, Text: text}))
		}
		Expect(g.TrySet(ctx, "max.ssl.connections=0").Code).To(BeEquivalentTo(invalidRequest), "0 would lock everybody out")
		inside := g.in(ctx, g.Group(clientNet, ssl, "alice", 2))
		next := g.waiter(ctx, clientNet, saslSSL, "bob")
		g.held(ctx, saslSSL)
		g.Unset(ctx, "max.ssl.connections")
		admitted(ctx, next, 1)
		more := g.in(ctx, g.Group(clientNet, ssl, "alice", 50))
		g.counts(ctx, counts{53, 53})
		for _, f := range []*fleet.Fleet{inside, next, more} {
			leave(f, 0, fleet.FIN)
		}
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(time.Minute)))
})
