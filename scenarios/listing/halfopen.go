package listing

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("The list of connections", Label("listing"), stage.Needs(stage.Listing), func() {
	It("shows clients that have not said who they are, and is not broken by them", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24", "fd00:1::/64"))
		half := func(prefix, listener, principal string, b fleet.Behaviour) fleet.Group {
			user := stage.Nobody
			if principal == "" {
				user = "alice" // whose name the broker does not know yet
			}
			g := s.Group(prefix, listener, user, 5)
			g.Behaviour, g.Principal = b, principal
			g.Name = string(b) + " at " + g.Name
			return g
		}
		f := s.Fleet(ctx,
			half("10.1.0.0/24", "PLAINTEXT", stage.Anonymous, fleet.Silent),
			half("fd00:1::/64", "SSL", stage.Anonymous, fleet.Silent),
			half("10.1.0.0/24", "SSL", stage.Anonymous, fleet.HalfHello),
			half("fd00:1::/64", "SASL_SSL", "", fleet.Silent),
			half("10.1.0.0/24", "SASL_SSL", "", fleet.HalfHello),
			half("10.1.0.0/24", "SASL_PLAINTEXT", "", fleet.Silent),
			half("fd00:1::/64", "SASL_PLAINTEXT", "", fleet.HalfSASL),
			half("10.1.0.0/24", "SASL_SSL", "", fleet.HalfSASL),
			s.Group("10.1.0.0/24", "SASL_SSL", "alice", 5),
		)
		stage.AllUp(f)
		Eventually(func() []string { return differences(f.Up(), s.Connections(ctx)) }).
			WithContext(ctx).WithTimeout(20 * time.Second).Should(BeEmpty())
		Expect(s.Connections(ctx)).To(HaveLen(45))
		Expect(s.Reconcile(ctx)).To(stage.BeExplained())

		By("filtering by a principal, of which those who have none match only the empty one")
		for _, principal := range []string{"", "User:alice", stage.Anonymous, "User:"} {
			want := where(f.Up(), func(r *fleet.Record) bool { return r.Principal == principal })
			Expect(differences(want, s.ListWhere(ctx, admin.ListFilter{Principal: &principal}))).To(BeEmpty())
		}
	}, SpecTimeout(2*time.Minute))

	It("keeps a client's principal while it authenticates again", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24"), stage.Broker("connections.max.reauth.ms=600000"))
		f := s.Fleet(ctx, s.Group("10.1.0.0/24", "SASL_PLAINTEXT", "alice", 3))
		stage.AllUp(f)
		for _, r := range f.Up() {
			_, err := f.Call(ctx, r.ID, saslHandshake("PLAIN"))
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(differences(f.Up(), s.Connections(ctx))).To(BeEmpty())
	}, SpecTimeout(time.Minute))
})
