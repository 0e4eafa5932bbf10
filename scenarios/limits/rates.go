package limits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// admissions are the times at which clients had their first answers, since the first of them.
func admissions(f *fleet.Fleet) []time.Duration {
	var times []time.Time
	records := f.Records()
	for i := range records {
		if r := &records[i]; r.First > 0 {
			times = append(times, r.Started.Add(r.First))
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	since := make([]time.Duration, len(times))
	for i, t := range times {
		since[i] = t.Sub(times[0])
	}
	return since
}

// within tells of the first admission that came too early: a rate lets the bursts of its window through, and no more.
func within(rate, burst int, since []time.Duration) error {
	for i, t := range since {
		if most := float64(burst) + float64(rate)*t.Seconds(); float64(i+1) > most {
			return fmt.Errorf("%d were admitted within %v, at most %.1f are at %d a second", i+1, t, most, rate)
		}
	}
	return nil
}

var _ = Describe("A listener's max.connection.creation.rate", Label("limits"), func() {
	It("acts from the first connection on, lets a burst of its window through, and leaves the other listeners alone", func(ctx SpecContext) {
		const rate, windows = 10, 2
		g := newGround(ctx, "listener.name.sasl_plaintext.max.connection.creation.rate=10", "quota.window.num=2")
		crowd := g.come(ctx, fleet.Plan{Groups: []fleet.Group{g.Group(clientNet, saslPlain, "alice", 50)}})
		others := g.in(ctx, g.Group(otherNet, plain, "", 50))
		Eventually(crowd.UpCount).WithContext(ctx).WithTimeout(patience).Should(Equal(50))
		since := admissions(crowd)
		Expect(within(rate, windows*rate, since)).To(Succeed())
		Expect(crowd.FirstError()).NotTo(HaveOccurred(), "a rate lets wait, it turns nobody away")
		g.wasBlocked(ctx, saslPlain, BeNumerically(">", time.Second.Nanoseconds()))
		g.wasBlocked(ctx, plain, BeZero())
		report.Attach(report.Figure{Name: "50 clients at 10 a second and two windows", Value: round(since[49].Seconds()), Unit: "s"})
		report.Attach(report.Figure{
			Name: "of them at once", Note: "within 0.8 s; Kafka: 19",
			Value: float64(len(slices.DeleteFunc(slices.Clone(since), func(t time.Duration) bool { return t > 800*time.Millisecond }))),
		})
		leave(crowd, 0, fleet.FIN)
		leave(others, 0, fleet.FIN)
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(time.Minute)))

	It("lets ten seconds' worth through at once with the usual windows, as Kafka does", func(ctx SpecContext) {
		g := newGround(ctx, "listener.name.sasl_plaintext.max.connection.creation.rate=10")
		for range 2 { // no more at once than the queues of three threads hold: what waits there counts as blocked too
			leave(g.in(ctx, g.Group(clientNet, saslPlain, "alice", 45)), 0, fleet.FIN)
		}
		g.wasBlocked(ctx, saslPlain, BeZero())
		g.atRest(ctx)

		By("a client's side that runs out of ports says so itself")
		n := g.Network(otherNet)
		n.SetPortRange(ctx, 20000, 20039)
		group := g.Group(otherNet, plain, "", 1000)
		group.Source = n.At("10.2.0.7")
		group.From = nil
		err := g.NewFleet().Add(ctx, fleet.Plan{Groups: []fleet.Group{group}})
		short, ok := errors.AsType[*fleet.ShortageError](err)
		Expect(ok).To(BeTrue(), "%v", err)
		Expect(short.Error()).To(ContainSubstring("ports from 10.2.0.7"))
		group.Count = 1 // of those that come one after another, nobody knows before how many there will be at once
		before := g.opened(ctx, plain)
		storm, stop := g.flood(ctx, fleet.Churn{Plan: fleet.Plan{Groups: []fleet.Group{group}, Rate: 200}, Hold: time.Hour}, patience)
		Eventually(func() int { return storm.Stats().Begun }).WithContext(ctx).WithTimeout(patience).Should(BeNumerically(">=", 60))
		Eventually(func() map[fleet.Outcome]int { return storm.Stats().Outcomes }).WithContext(ctx).WithTimeout(patience).
			Should(And(HaveKeyWithValue(fleet.Up, 40), HaveKeyWithValue(fleet.Shortage, BeNumerically(">=", 20))))
		Expect(g.opened(ctx, plain) - before).To(BeEquivalentTo(40))
		stop()
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(time.Minute)))
})

var _ = Describe("A rate and a limit together", Label("limits"), func() {
	It("let a client wait as long as the longer of the two, and its timeline tells for which", func(ctx SpecContext) {
		g := newGround(ctx, "max.connection.creation.rate=5", "listener.name.internal.max.connections=1000",
			"listener.name.internal.max.connection.creation.rate=1000")
		g.Set(ctx, fmt.Sprintf("max.connections=%d", 10+g.own(ctx)))
		inside := g.in(ctx, g.Group(clientNet, plain, "", 10))
		next := g.waiter(ctx, otherNet, plain, "")
		g.held(ctx, plain)
		begin := time.Now()
		Consistently(next.UpCount).WithContext(ctx).WithTimeout(1500 * time.Millisecond).Should(BeZero())
		waited := time.Since(begin)
		leave(inside, 1, fleet.FIN)
		admitted(ctx, next, 1)
		if !stage.Has(stage.Listing) { // nor does it tell of single connections
			leave(inside, 0, fleet.FIN)
			leave(next, 0, fleet.FIN)
			g.atRest(ctx)
			return
		}
		events := g.timeline(ctx, next.Records()[0])
		Expect(events).NotTo(HaveKey(protocol.EventWaitedRate), "ten at 5 a second are no burst yet")
		Expect(events).To(HaveKey(protocol.EventWaitedSlot))
		slot := events[protocol.EventWaitedSlot]
		Expect(slot.Limit).To(Equal("max.connections"))
		Expect(time.Duration(slot.Micros) * time.Microsecond).To(BeNumerically(">=", waited))
		report.Attach(report.Figure{Name: "waited for a slot", Value: float64(slot.Micros / 1000), Unit: "ms", Note: fmt.Sprintf("freed after %v", waited.Round(time.Millisecond))})
		leave(inside, 0, fleet.FIN)
		leave(next, 0, fleet.FIN)
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(time.Minute)))
})

var _ = Describe("An address's connection_creation_rate", Label("limits"), func() {
	It("holds what is too much and closes it, uncounted, and costs other addresses nothing", func(ctx SpecContext) {
		const rate, windows = 10, 2
		g := newGround(ctx, "quota.window.num=2")
		g.rate(ctx, "10.1.0.10", rate)
		w := g.watch(ctx, 200, plain)
		hasty := g.Group(clientNet, plain, "", 30)
		hasty.Source = g.Network(clientNet).At("10.1.0.10")
		crowd := g.come(ctx, fleet.Plan{Groups: []fleet.Group{hasty}})
		others := g.in(ctx, g.Group(otherNet, plain, "", 30))
		ended := func() int {
			s := crowd.Stats()
			return s.Outcomes[fleet.ClosedByBroker] + s.Outcomes[fleet.Reset]
		}
		Eventually(func() int { return crowd.UpCount() + ended() }).WithContext(ctx).WithTimeout(patience).Should(Equal(30))
		Expect(crowd.UpCount()).To(And(BeNumerically(">=", rate), BeNumerically("<", 30)))
		Expect(within(rate, windows*rate, admissions(crowd))).To(Succeed())
		g.closed(ctx, "per_ip_rate", ended())
		g.counts(ctx, counts{30 + crowd.UpCount(), 0})
		stage.AllUp(others)
		g.wasBlocked(ctx, plain, BeZero(), "an address's rate never blocks the acceptor")
		report.Attach(report.Figure{Name: "of 30 at once, let in", Value: float64(crowd.UpCount()), Note: "10 a second, two windows"})

		By("another value, then none")
		g.SetIPRate(ctx, "10.1.0.10", -1)
		Eventually(func() error {
			late := g.NewFleet()
			Expect(late.Add(ctx, fleet.Plan{Groups: []fleet.Group{hasty}})).To(Succeed())
			defer leave(late, 0, fleet.FIN)
			return late.FirstError()
		}).WithContext(ctx).WithTimeout(patience).Should(Succeed(), "all of them, at once")
		w.end(ctx, "")
		leave(crowd, 0, fleet.FIN)
		leave(others, 0, fleet.FIN)
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(time.Minute)))
})

// opened is how many connections a listener has had: those that the broker has accepted, or as the kernel counts, where it does not tell.
func (g *ground) opened(ctx context.Context, listener string) uint64 {
	GinkgoHelper()
	if port := g.Port(ctx, listener); stage.Target().IsKafka() {
		return port.Gauge.Opened
	}
	return g.Port(ctx, listener).Broker.Accepted
}

// rate gives an address a rate of its own, and waits until the broker acts by it.
func (g *ground) rate(ctx context.Context, address string, rate int) {
	GinkgoHelper()
	g.SetIPRate(ctx, address, float64(rate))
	g.effective(ctx, "connection_creation_rate", address+":"+text(rate))
}

// timeline is what the broker says happened to the connection of a client, by name.
func (g *ground) timeline(ctx context.Context, r fleet.Record) map[string]protocol.DescribeConnectionTimelineResponseEvent {
	GinkgoHelper()
	address := r.Local.Addr().String()
	req := protocol.NewPtrDescribeConnectionTimelineRequest()
	req.AddressFilter, req.ClientPort, req.Most = &address, int32(r.Local.Port()), 1
	resp, ok := g.Ask(ctx, req).(*protocol.DescribeConnectionTimelineResponse)
	Expect(ok).To(BeTrue())
	Expect(resp.ErrorCode).To(BeZero(), "%v", resp.ErrorMessage)
	Expect(resp.Connections).To(HaveLen(1))
	events := map[string]protocol.DescribeConnectionTimelineResponseEvent{}
	for _, e := range resp.Connections[0].Events {
		events[e.Name] = e
	}
	return events
}
