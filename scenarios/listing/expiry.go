package listing

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A row of the list", Label("listing"), stage.Needs(stage.Listing), func() {
	It("goes when its SASL session has expired, for 100 sessions together, and other listeners' stay", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24", "fd00:1::/64"), stage.Broker("connections.max.reauth.ms=2000"))
		busy := func(prefix, listener, user string, count int) fleet.Group {
			g := s.Group(prefix, listener, user, count)
			g.Behaviour, g.Every, g.NoReauth = fleet.Metadata, 200*time.Millisecond, true
			return g
		}
		sessions := s.Fleet(ctx, busy("10.1.0.0/24", "SASL_PLAINTEXT", "alice", 50), busy("fd00:1::/64", "SASL_SSL", "bob", 50))
		others := s.Fleet(ctx, busy("10.1.0.0/24", "SSL", "alice", 10))
		Expect(sessions.FirstError()).NotTo(HaveOccurred())
		Eventually(sessions.UpCount).WithContext(ctx).WithTimeout(30 * time.Second).Should(BeZero())
		for _, r := range sessions.Records() {
			Expect(r.Outcome).To(Or(Equal(fleet.ClosedByBroker), Equal(fleet.Reset)), "%+v", r)
			Expect(r.Ended.Sub(r.Started)).To(BeNumerically(">=", 1500*time.Millisecond), "%+v", r)
			Expect(r.Requests).To(BeNumerically(">", 3), "it was served before: %+v", r)
		}
		Eventually(func() []string { return differences(others.Up(), s.Connections(ctx)) }).
			WithContext(ctx).WithTimeout(20 * time.Second).Should(BeEmpty())
		stage.AllUp(others)
		Expect(s.Closed(ctx)).To(HaveKeyWithValue("session_expired", 100))
		Expect(s.Reconcile(ctx)).To(stage.BeExplained())
	}, SpecTimeout(time.Minute))
})
