package cluster

import (
	"math/rand/v2"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A cluster", Label("cluster"), stage.Needs(stage.Faces), func() {
	It("loses nothing that was acknowledged and has nothing twice when its engine is killed, and none of its brokers restarts for that", func(ctx SpecContext) {
		s := three(ctx)
		l := begin(ctx, s)
		before := mark(ctx, s.Broker(1), "before-the-kill")
		s.Scram(ctx, "dave", "SCRAM-SHA-256")
		pids := make([]int, 0, len(s.All()))
		for _, b := range s.All() {
			pids = append(pids, b.PID(ctx))
		}
		engine, slowest := s.Part("engine"), time.Duration(0)
		for range 3 { // each in the middle of other batches
			Expect(engine.Kill(ctx)).To(Succeed())
			for _, b := range s.All() {
				Expect(b.PID(ctx)).NotTo(BeZero(), "%s goes on", b.Name())
			}
			Expect(engine.Start(ctx)).To(Succeed())
			at := time.Now()
			l.flows(ctx)
			slowest = max(slowest, time.Since(at))
		}
		report.Attach(report.Figure{Name: "records flow again after the engine's start in, at most", Value: slowest.Seconds(), Unit: "s"})
		for i, b := range s.All() {
			Expect(b.PID(ctx)).To(Equal(pids[i]), "%s is the process that it was", b.Name())
		}
		everywhere(ctx, s, before)
		everywhere(ctx, s, mark(ctx, s.Broker(2), "after-the-kill"))
		Expect(s.HasUser(ctx, "dave")).To(BeTrue())
		l.finish(ctx)
		Expect(l.refusals()).To(BeEmpty(), "clients wait for their engine, and give up nothing")
	}, SpecTimeout(4*time.Minute))

	It("loses nothing and has nothing twice however often its engine is killed", Label(stage.Long), func(ctx SpecContext) {
		const kills, rest, longest = 60, 4, 600 * time.Millisecond
		s := three(ctx)
		l := begin(ctx, s)
		engine, slowest := s.Part("engine"), time.Duration(0)
		for n := range kills { // in the middle of whatever is written
			Expect(engine.Kill(ctx)).To(Succeed())
			Expect(engine.Start(ctx)).To(Succeed())
			if n%rest != 0 {
				<-time.After(rand.N(longest)) //nolint:gosec // any moment will do
				continue
			}
			at := time.Now()
			l.flows(ctx)
			slowest = max(slowest, time.Since(at))
		}
		report.Attach(report.Figure{Name: "records flow again after the engine's start in, at most", Value: slowest.Seconds(), Unit: "s"})
		l.finish(ctx)
		Expect(l.refusals()).To(BeEmpty(), "clients wait for their engine, and give up nothing")
	}, SpecTimeout(10*time.Minute))
})
