package cluster

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// agree waits until every broker has read the same of the metadata log, and has the same of it by hash.
func agree(ctx context.Context, s *stage.Stage) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		images := s.Images(ctx)
		g.Expect(images).To(HaveLen(len(s.All())), "who answers")
		for i := range images {
			g.Expect(images[i]).To(Equal(images[0]), "metadata that brokers have")
		}
	}).WithContext(ctx).WithTimeout(patience).Should(Succeed())
}

// nobodyLeft waits until no broker lists a client or holds a slot for one, and the kernel counts none; and holds each broker's list to
// the kernel's count.
func nobodyLeft(ctx context.Context, s *stage.Stage) {
	GinkgoHelper()
	for _, b := range s.All() {
		Eventually(func() []admin.ClientConnection { return b.Connections(ctx) }).WithContext(ctx).WithTimeout(patience).
			Should(BeEmpty(), "clients that %s still lists", b.Name())
		Eventually(func() []string { return b.Held(ctx) }).WithContext(ctx).WithTimeout(patience).
			Should(BeEmpty(), "what %s still counts for clients that are gone", b.Name())
		if b.KernelExact(ctx) {
			Eventually(func() int64 { return sum(b.KernelByClient(ctx)) }).WithContext(ctx).WithTimeout(patience).
				Should(BeZero(), "clients that the kernel still counts at %s", b.Name())
		}
		Expect(b.Reconcile(ctx)).To(stage.BeExplained(), "at %s", b.Name())
	}
}
