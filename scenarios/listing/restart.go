package listing

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("The list of connections", Label("listing"), stage.Needs(stage.Listing), func() {
	It("begins anew with a broker that was killed, and the kernel's count with it", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24", "fd00:1::/64"))
		groups := []fleet.Group{
			s.Group("10.1.0.0/24", "PLAINTEXT", stage.Nobody, 50), s.Group("fd00:1::/64", "SSL", "alice", 50),
			s.Group("10.1.0.0/24", "SASL_SSL", "bob", 50),
		}
		old := s.Fleet(ctx, groups...)
		stage.AllUp(old)
		Expect(s.Node().Kill(ctx)).To(Succeed())
		Eventually(old.UpCount).WithContext(ctx).WithTimeout(20*time.Second).Should(BeZero(), "every client notices")
		Expect(s.Node().Start(ctx)).To(Succeed())
		Eventually(s.Ping).WithContext(ctx).WithTimeout(30 * time.Second).Should(Succeed())
		Expect(s.Connections(ctx)).To(BeEmpty())
		fresh := s.Fleet(ctx, groups...)
		stage.AllUp(fresh)
		Expect(differences(fresh.Up(), s.Connections(ctx))).To(BeEmpty())
		if s.KernelExact(ctx) {
			Expect(s.KernelByClient(ctx)).To(Equal(stage.CountByClient(fresh.Up())))
		}
		Expect(s.Reconcile(ctx)).To(stage.BeExplained())
	}, SpecTimeout(time.Minute))
})
