package configpush

import (
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/protocol"
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

var _ = Describe("Thousands of clients that push at once", Label("configpush"), stage.Needs(stage.ConfigPush), func() {
	It("are all kept, each with its own, while others keep their service", func(ctx SpecContext) {
		crowd := stage.Scale(5000)
		s := newGround(ctx, store, "client.config.policy.timeout.ms=60000") // the report has the slowest, for the usual 5000
		steady := s.Group(otherNet, "SASL_SSL", "alice", 20)
		steady.Behaviour, steady.Every = fleet.Metadata, 50*time.Millisecond
		others := s.Workers(ctx, fleet.Plan{Groups: []fleet.Group{steady}}) // a process of its own: the crowd's would hold them up
		Eventually(others.Records).WithContext(ctx).WithTimeout(patience).Should(HaveEach(HaveField("Requests", BeNumerically(">", 20))))
		quiet, err := others.Latencies()
		Expect(err).NotTo(HaveOccurred())

		groups := make([]fleet.Group, 0, len(protocols()))
		for i, p := range protocols() {
			share := crowd / len(protocols())
			if i == 0 {
				share = crowd - share*(len(protocols())-1)
			}
			groups = append(groups, s.Group(clientNet, p.listener, p.user, share))
		}
		f := in(ctx, s, groups...)
		requests, memory := pushRequests(f), s.Memory(ctx)
		_, err = others.Latencies() // those while the crowd connected are not meant
		Expect(err).NotTo(HaveOccurred())

		// All of them are connected; now they push, in the same moment.
		begin := time.Now()
		codes, latency := pushTogether(ctx, f, requests)
		took := time.Since(begin)
		meanwhile, err := others.Latencies()
		Expect(err).NotTo(HaveOccurred())
		report.Attach(report.Figure{Name: "clients that pushed", Value: float64(crowd)})
		report.Attach(report.Figure{Name: "until all had been answered", Value: milliseconds(took) / 1000, Unit: "s"})
		report.Attach(report.Figure{Name: "pushes a second", Value: float64(crowd) / took.Seconds()})
		report.Attach(report.Figure{Name: "the broker's memory grew by", Value: float64(s.Memory(ctx).Resident-memory.Resident) / (1 << 20), Unit: "MiB"})
		report.Attach(report.Figure{Name: "the slowest push", Value: float64(latency.Max()) / 1e6, Unit: "s"})
		report.Attach(report.NewLatency("config push", latency))
		Expect(codes).To(Equal(map[int16]int{0: crowd}), "each is kept in time")

		Expect(others.Records()).To(HaveEach(And(HaveField("Outcome", fleet.Up), HaveField("Failures", BeZero()))))
		Expect(meanwhile).To(HaveKey(fleet.RequestLatency), "the others were served meanwhile")
		report.Attach(report.NewLatency("others' requests before", quiet[fleet.RequestLatency]))
		report.Attach(report.NewLatency("others' requests meanwhile", meanwhile[fleet.RequestLatency]))

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

// pushRequests are what the clients of f will push, by their ids.
func pushRequests(f *fleet.Fleet) map[int]*protocol.PushConfigRequest {
	requests := map[int]*protocol.PushConfigRequest{}
	configs, all := application(), f.Up()
	for i := range all {
		requests[all[i].ID] = fleet.PushRequest(configs, all[i].Index)
	}
	return requests
}

// pushTogether lets all clients push, none of which waits for another. codes counts what they were answered, latency is how long
// that took, in microseconds.
func pushTogether(
	ctx context.Context, f *fleet.Fleet, requests map[int]*protocol.PushConfigRequest,
) (codes map[int16]int, latency *hdrhistogram.Histogram) {
	GinkgoHelper()
	type answer struct {
		code int16
		took time.Duration
		err  error
	}
	answers := make(chan answer, len(requests))
	for id, req := range requests {
		go func() {
			begin := time.Now()
			resp, err := f.Call(ctx, id, req)
			a := answer{took: time.Since(begin), err: err}
			if err == nil {
				a.code = resp.(*protocol.PushConfigResponse).ErrorCode //nolint:forcetypeassert // the answer to a PushConfig
			}
			answers <- a
		}()
	}
	codes, latency = map[int16]int{}, fleet.NewHistogram()
	for range requests {
		a := <-answers
		Expect(a.err).NotTo(HaveOccurred())
		codes[a.code]++
		Expect(latency.RecordValue(a.took.Microseconds())).To(Succeed())
	}
	return codes, latency
}
