package accounting

import (
	"context"
	"net/netip"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/internal/kernel"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("The kernel's count", Label("accounting"), func() {
	It("begins under load without losing a connection: those that were there and those that come meanwhile", func(ctx SpecContext) {
		stage.Alone()
		stage.Need(ctx, kernel.Seeding)
		program := stage.Listen(ctx, "[::]:0")
		group := func(count int, host, sources string) fleet.Group {
			return fleet.Group{
				Count: count, Target: netip.AddrPortFrom(netip.MustParseAddr(host), program.Port()), Protocol: fleet.Plaintext,
				Behaviour: fleet.Silent, Source: fleet.Loopback(netip.MustParsePrefix(sources)),
			}
		}
		existing := stage.NewFleet(ctx, group(stage.Scale(300), "127.0.0.1", "127.1.0.0/24"), group(stage.Scale(200), "::1", "::1/128"))
		stage.AllUp(existing)

		coming := stage.NewFleet(ctx)
		rush, stop := context.WithCancel(ctx)
		var going sync.WaitGroup
		going.Go(func() {
			defer GinkgoRecover()
			Expect(coming.Churn(rush, fleet.Churn{
				Plan: fleet.Plan{Rate: 200, Groups: []fleet.Group{group(1, "127.0.0.1", "127.2.0.0/24"), group(1, "::1", "::1/128")}},
				Hold: 100 * time.Millisecond, How: []fleet.How{fleet.FIN, fleet.RST}, Seed: uint64(GinkgoRandomSeed()),
			})).To(Succeed())
		})
		Eventually(func() int { return coming.Stats().Connected }).WithContext(ctx).WithTimeout(20 * time.Second).Should(BeNumerically(">", 20))
		begin := time.Now()
		counter := stage.Attach(ctx, program)
		took := time.Since(begin)
		connected := coming.Stats().Connected
		Eventually(func() int { return coming.Stats().Connected }).WithContext(ctx).WithTimeout(20 * time.Second).Should(BeNumerically(">", connected+20))
		stop()
		going.Wait()

		By("coming to rest")
		Eventually(coming.UpCount).WithContext(ctx).WithTimeout(20 * time.Second).Should(BeZero())
		count := existing.Stats().Up
		Eventually(program.Held).WithContext(ctx).WithTimeout(20 * time.Second).Should(Equal(count))
		Eventually(func() int64 { return counter.Port(ctx, program).Established }).
			WithContext(ctx).WithTimeout(20 * time.Second).Should(BeEquivalentTo(count))
		k := counter.Port(ctx, program)
		report.Attach(report.Figure{Name: "attached in", Value: float64(took.Milliseconds()), Unit: "ms"})
		report.Attach(report.Figure{Name: "connections that were there before", Value: float64(k.Seeded)})
		report.Attach(report.Figure{Name: "connections lost while attaching", Value: float64(count) - float64(k.Established)})
		Expect(k.Seeded).To(BeNumerically(">=", count))
		Expect(k.Seeded + k.Opened - k.Closed).To(BeEquivalentTo(count))
		Expect(counter.Sockets(ctx, program)).To(HaveLen(count))
		Expect(counter.Report(ctx).Lost).To(BeEmpty())

		_, err := existing.CloseWhere(nil, fleet.FIN)
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() int64 { return counter.Port(ctx, program).Established }).
			WithContext(ctx).WithTimeout(20 * time.Second).Should(BeZero())
	}, SpecTimeout(stage.Within(2*time.Minute)))
})
