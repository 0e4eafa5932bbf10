package configpush

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// stage100k is the 100,000 keys of a hostile push, by the run's scale.
func stage100k() int { return stage.Scale(100_000) }

// application is a configuration of which each client has its own.
func application() []fleet.Config {
	configs := []fleet.Config{
		{Key: "client.id", Value: "billing-" + fleet.Number, Type: 2},
		{Key: "group.id", Value: "billing", Type: 2},
		{Key: "linger.ms", Value: fleet.Number, Type: 5},
		{Key: "acks", Value: "all", Type: 2, Default: true},
	}
	for i := range 30 {
		configs = append(configs, fleet.Config{Key: fmt.Sprintf("application.setting.%d", i), Value: "as in the other instances", Type: 2, Default: true})
	}
	return configs
}

var _ = Describe("Thousands of clients that push at once", Label("configpush"), func() {
	It("are all kept, each with its own, while others keep their service", func(ctx SpecContext) {
		crowd := stage.Scale(5000)
		s := newGround(ctx, store)
		steady := s.Group(otherNet, "SASL_SSL", "alice", 20)
		steady.Behaviour, steady.Every = fleet.Metadata, 50*time.Millisecond
		others := in(ctx, s, steady)
		Eventually(others.Records).WithContext(ctx).WithTimeout(patience).Should(HaveEach(HaveField("Requests", BeNumerically(">", 20))))
		quiet := others.Latencies()[fleet.RequestLatency]

		groups := make([]fleet.Group, 0, len(protocols()))
		for i, p := range protocols() {
			share := crowd / len(protocols())
			if i == 0 {
				share = crowd - share*(len(protocols())-1)
			}
			g := s.Group(clientNet, p.listener, p.user, share)
			g.Push = application()
			groups = append(groups, g)
		}
		begin := time.Now()
		f := in(ctx, s, groups...)
		took := time.Since(begin)
		report.Attach(report.Figure{Name: "clients that pushed", Value: float64(crowd)})
		report.Attach(report.Figure{Name: "until all were connected and had pushed", Value: milliseconds(took) / 1000, Unit: "s"})
		report.Attach(report.NewLatency("config push", f.Latencies()[fleet.PushLatency]))
		codes := map[int16]int{}
		for _, r := range f.Records() {
			codes[r.Push]++
		}
		Expect(codes).To(Equal(map[int16]int{0: crowd}))

		stage.AllUp(others)
		Expect(others.Stats().Failures).To(BeZero())
		meanwhile := stage.Since(others.Latencies()[fleet.RequestLatency], quiet)
		report.Attach(report.NewLatency("others' requests before", quiet))
		report.Attach(report.NewLatency("others' requests meanwhile", meanwhile))
		Expect(meanwhile.TotalCount()).To(BeNumerically(">", 0))

		Expect(counted(ctx, s, "accepted")).To(Equal(crowd))
		rows := kept(ctx, s)
		Expect(rows).To(HaveLen(crowd))
		instances := map[string]int{}
		for i := range rows {
			Expect(rows[i].Configurations).To(HaveLen(1))
			entries := rows[i].Configurations[0].Entries
			Expect(entries).To(HaveLen(len(application())))
			instances[rows[i].ListenerName+" "+entries[0].Value+" "+entries[2].Value]++
		}
		Expect(instances).To(HaveLen(crowd), "each is its own")
	}, SpecTimeout(3*time.Minute))
})
