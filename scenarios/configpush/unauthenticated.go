package configpush

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A push before authentication", Label("configpush"), stage.Needs(stage.ConfigPush), func() {
	It("ends the connection, before the mechanism is chosen and after, and is not seen by the policy", func(ctx SpecContext) {
		s := newGround(ctx, store)
		for _, listener := range []string{"SASL_PLAINTEXT", "SASL_SSL"} {
			By(listener)
			g := one(s, listener, "alice")
			g.Behaviour = fleet.HalfSASL
			f := in(ctx, s, g)
			Expect(repush(ctx, f, fleet.Config{Key: "acks", Value: "1"}).ErrorCode).To(BeEquivalentTo(illegalSASLState), "as Kafka says before it closes")
			Eventually(func() fleet.Outcome { return f.Records()[0].Outcome }).WithContext(ctx).WithTimeout(patience).
				Should(BeElementOf(fleet.ClosedByBroker, fleet.Reset))

			// As the first thing that is said: a client that takes the listener for one without SASL.
			g = one(s, listener, "alice", fleet.Config{Key: "acks", Value: "1"})
			if g.Protocol.TLS() {
				g.Protocol = fleet.SSL
			} else {
				g.Protocol = fleet.Plaintext
			}
			f = s.Fleet(ctx, g)
			Expect(f.Records()[0].Outcome).To(BeElementOf(fleet.ClosedByBroker, fleet.Reset))
			Expect(f.Records()[0].Phase).To(Equal(fleet.Pushing))
		}
		Expect(kept(ctx, s)).To(BeEmpty())
		Expect(counted(ctx, s, "accepted")).To(BeZero())
	}, SpecTimeout(time.Minute))
})
