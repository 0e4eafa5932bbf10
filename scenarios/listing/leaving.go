package listing

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A row of the list", Label("listing"), stage.Needs(stage.Listing), func() {
	for _, how := range []fleet.How{fleet.FIN, fleet.RST} {
		It("goes when its client leaves with a "+map[fleet.How]string{fleet.FIN: "FIN", fleet.RST: "reset"}[how], func(ctx SpecContext) {
			s := stage.New(ctx, stage.Subnet("10.1.0.0/24", "fd00:1::/64"))
			var groups []fleet.Group
			for i, listener := range []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"} {
				user := []string{stage.Nobody, "alice", "alice", "bob"}[i]
				groups = append(groups, s.Group("10.1.0.0/24", listener, user, 10), s.Group("fd00:1::/64", listener, user, 10))
			}
			f := s.Fleet(ctx, groups...)
			stage.AllUp(f)
			n, err := f.CloseWhere(func(r fleet.Record) bool { return r.Index%2 == 0 }, how)
			Expect(err).NotTo(HaveOccurred())
			Expect(n).To(Equal(40))
			Eventually(func() []string { return differences(f.Up(), s.Connections(ctx)) }).
				WithContext(ctx).WithTimeout(20 * time.Second).Should(BeEmpty())
			Expect(f.Up()).To(HaveLen(40))
			_, err = f.CloseWhere(nil, how)
			Expect(err).NotTo(HaveOccurred())
			Eventually(s.Connections).WithContext(ctx).WithTimeout(20 * time.Second).Should(BeEmpty())
			if s.KernelExact(ctx) {
				Eventually(s.KernelByClient).WithContext(ctx).WithTimeout(20 * time.Second).Should(BeEmpty())
			}
			Expect(s.Reconcile(ctx)).To(stage.BeExplained())
		}, SpecTimeout(2*time.Minute))
	}
})
