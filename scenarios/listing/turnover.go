package listing

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("Clients that are made anew for each question", Label("listing"), stage.Needs(stage.Listing), func() {
	It("are counted one by one: 100 a second, how long they live and who keeps their TIME_WAIT", func(ctx SpecContext) {
		const network, lasting = "10.1.0.0/16", 5 * time.Second
		s := stage.New(ctx, stage.Subnet(network), stage.Broker("socket.listen.backlog.size=4096"))
		s.NeedKernel(ctx)
		admin := s.Group(network, "SASL_PLAINTEXT", "alice", 1)
		admin.ClientID, admin.Software = "reconciler", "adminclient"
		before := s.Port(ctx, "SASL_PLAINTEXT")
		Expect(before.Broker).NotTo(BeNil())
		f := s.NewFleet()
		begin := time.Now()
		rush, stop := context.WithTimeout(ctx, lasting)
		defer stop()
		Expect(f.Churn(rush, fleet.Churn{
			Plan: fleet.Plan{Rate: float64(stage.Scale(100)), Groups: []fleet.Group{admin}},
			Hold: time.Nanosecond, How: []fleet.How{fleet.FIN}, Seed: uint64(GinkgoRandomSeed()),
		})).To(Succeed())
		took := time.Since(begin)
		Eventually(f.UpCount).WithContext(ctx).WithTimeout(20 * time.Second).Should(BeZero())
		Eventually(s.Connections).WithContext(ctx).WithTimeout(20 * time.Second).Should(BeEmpty())

		var lifetimes []time.Duration
		for _, r := range f.Records() {
			Expect(r.Err()).NotTo(HaveOccurred())
			lifetimes = append(lifetimes, r.Ended.Sub(r.Started))
		}
		slices.Sort(lifetimes)
		after := s.Port(ctx, "SASL_PLAINTEXT")
		opened, closed := after.Gauge.Opened-before.Gauge.Opened, after.Gauge.Closed-before.Gauge.Closed
		Expect(after.Broker).NotTo(BeNil())
		Expect(opened).To(BeEquivalentTo(len(lifetimes)), "opened, as the kernel counts")
		Expect(closed).To(BeEquivalentTo(len(lifetimes)), "closed, as the kernel counts")
		Expect(after.Broker.Accepted-before.Broker.Accepted).To(BeEquivalentTo(len(lifetimes)), "accepted by the broker")
		Expect(len(lifetimes)).To(BeNumerically(">", stage.Scale(100)))
		brokers, clients := s.TimeWait(ctx, network, "SASL_PLAINTEXT")
		Expect(brokers).To(BeZero(), "the clients closed first")
		Expect(clients).To(BeNumerically(">", len(lifetimes)/2), "within a minute none has gone")

		report.Attach(report.Figure{Name: "opens", Value: round(float64(opened) / took.Seconds()), Unit: "/s"})
		report.Attach(report.Figure{Name: "median lifetime", Value: milliseconds(lifetimes[len(lifetimes)/2]), Unit: "ms", Note: "from the client's SYN to its FIN"})
		report.Attach(report.Figure{Name: "TIME_WAIT at the broker", Value: float64(brokers)})
		report.Attach(report.Figure{Name: "TIME_WAIT at the clients", Value: float64(clients), Note: "of " + network})
	}, SpecTimeout(time.Minute))
})
