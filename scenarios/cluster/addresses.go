package cluster

import (
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A cluster", Label("cluster"), stage.Needs(stage.Faces), func() {
	It("tells no client where its engine is, and lets nobody but its brokers reach it", func(ctx SpecContext) {
		s := three(ctx)
		l := begin(ctx, s)
		By("asking each broker by each listener")
		names := map[string]bool{}
		for _, b := range s.All() {
			for _, listener := range []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"} {
				for _, host := range b.Told(ctx, office, listener, "alice", topic, franzGo.group()) {
					names[host] = true
				}
			}
		}
		Expect(names).To(And(HaveLen(12), HaveKey("broker2:9093")), "every address that a client is told: each broker's, at each listener")
		for host := range names {
			Expect(host).To(HavePrefix("broker"))
		}
		By("trying to reach the engine")
		var trying sync.WaitGroup
		for _, port := range s.Part("engine").Ports { // each answers nothing until its time is over
			trying.Go(func() {
				defer GinkgoRecover()
				Expect(s.Reach(ctx, office, "engine", port)).NotTo(Succeed(), "a client at port %d of the engine", port)
			})
		}
		trying.Wait()
		By("ending")
		l.finish(ctx)
	}, SpecTimeout(3*time.Minute))
})
