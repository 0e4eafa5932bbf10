package listing

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("The list of connections", Label("listing"), stage.Needs(stage.Listing), func() {
	It("has each of 10,000 once, in less than a second, while 1,000 clients produce", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/16", "fd00:1::/64"), stage.Broker("socket.listen.backlog.size=4096"))
		s.CreateTopic(ctx, "load", 1)
		crowd := s.Fleet(ctx, s.Group("10.1.0.0/16", "PLAINTEXT", stage.Nobody, stage.Scale(5000)))
		stage.AllUp(crowd)
		workers := s.Workers(ctx,
			fleet.Plan{Groups: []fleet.Group{s.Group("fd00:1::/64", "SASL_PLAINTEXT", "alice", stage.Scale(2000))}},
			fleet.Plan{Groups: []fleet.Group{s.Group("10.1.0.0/16", "SASL_PLAINTEXT", "bob", stage.Scale(2000))}},
		)
		others, err := workers.Records()
		Expect(err).NotTo(HaveOccurred())
		Expect(others).To(HaveEach(HaveField("Outcome", fleet.Up)))
		load := s.Group("10.1.0.0/16", "PLAINTEXT", stage.Nobody, stage.Scale(1000))
		load.Behaviour, load.Every, load.Topic = fleet.Produce, 2*time.Second, "load"
		producers := s.Fleet(ctx, load)
		stage.AllUp(producers)
		Eventually(producers.Records).WithContext(ctx).WithTimeout(time.Minute).Should(HaveEach(HaveField("Requests", BeNumerically(">=", 2))))

		quiet := producers.Latencies()[fleet.RequestLatency]
		times := fleet.NewHistogram()
		for range 10 {
			begin := time.Now()
			rows := s.Connections(ctx)
			Expect(times.RecordValue(time.Since(begin).Microseconds())).To(Succeed())
			Expect(differences(slices.Concat(crowd.Up(), producers.Up(), others), rows)).To(BeEmpty())
		}
		after := producers.Latencies()[fleet.RequestLatency]
		report.Attach(report.NewLatency("one list of all connections", times))
		report.Attach(report.Figure{Name: "connections", Value: float64(len(others) + crowd.Stats().Up + producers.Stats().Up)})
		report.Attach(report.Figure{Name: "produce p99 before listing", Value: p99(quiet), Unit: "ms"})
		report.Attach(report.Figure{Name: "produce p99 with listing", Value: p99(after), Unit: "ms"})
		stage.AllUp(producers)
		Expect(producers.Stats().Failures).To(BeZero())
		Expect(time.Duration(times.ValueAtQuantile(50))*time.Microsecond).To(BeNumerically("<", time.Second), "the median list")
	}, SpecTimeout(4*time.Minute))
})

// p99 is in milliseconds.
func p99(h *hdrhistogram.Histogram) float64 {
	if h == nil {
		return 0
	}
	return float64(h.ValueAtQuantile(99)) / 1000
}
