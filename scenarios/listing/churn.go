package listing

import (
	"context"
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// snapshot is a list and when it was asked for and answered.
type snapshot struct {
	asked, answered time.Time
	rows            []admin.ClientConnection
}

// contradictions tells what in the snapshot cannot be explained by connections that came or went while it was made. lag is
// how long a broker may take to notice that a client has left.
func (s *snapshot) contradictions(clients []fleet.Record, lag time.Duration) []string {
	var out []string
	// A port may be used again, so a client is known by its end and its time.
	by := map[end][]*fleet.Record{}
	for i := range clients {
		of := end{clients[i].Local, clients[i].Listener}
		by[of] = append(by[of], &clients[i])
	}
	listed := map[end]bool{}
	for i := range s.rows {
		address, err := remote(&s.rows[i])
		if err != nil {
			out = append(out, err.Error())
			continue
		}
		from := end{address, s.rows[i].ListenerName}
		if listed[from] {
			out = append(out, fmt.Sprintf("%v is listed twice", from))
		}
		listed[from] = true
		possible := false
		for _, c := range by[from] {
			possible = possible || c.Started.Before(s.answered) && (c.Ended.IsZero() || c.Ended.Add(lag).After(s.asked))
		}
		if !possible {
			out = append(out, fmt.Sprintf("%v is listed but was no client of ours then", from))
		}
	}
	for i := range clients {
		c := &clients[i]
		up := c.Ready > 0 && c.Started.Add(c.Ready).Before(s.asked) && (c.Ended.IsZero() || c.Ended.After(s.answered))
		if up && !listed[end{c.Local, c.Listener}] {
			out = append(out, fmt.Sprintf("%v (%s) was up all the time but is not listed", c.Local, c.Group))
		}
	}
	return out
}

var _ = Describe("The list of connections", Label("listing"), stage.Needs(stage.Listing), func() {
	It("differs from clients and kernel only by what comes and goes, under 300 connections a second", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet(subnets()...), stage.Broker("socket.listen.backlog.size=4096"))
		steady := s.Fleet(ctx, mix(ctx, s, stage.Scale(200))...)
		stage.AllUp(steady)

		const lasting, hold, lag = 8 * time.Second, 500 * time.Millisecond, 5 * time.Second
		churning := s.NewFleet()
		rush, stop := context.WithTimeout(ctx, lasting)
		defer stop()
		var going sync.WaitGroup
		going.Go(func() {
			defer GinkgoRecover()
			plan := fleet.Plan{Rate: float64(stage.Scale(300)), Groups: mix(ctx, s, 200)}
			Expect(churning.Churn(rush, fleet.Churn{
				Plan: plan, Hold: hold, How: []fleet.How{fleet.FIN, fleet.RST}, Seed: uint64(GinkgoRandomSeed()),
			})).To(Succeed())
		})
		var taken []snapshot
		reconciled := 0
		for rush.Err() == nil {
			one := snapshot{asked: time.Now()}
			one.rows = s.Connections(ctx)
			one.answered = time.Now()
			taken = append(taken, one)
			Expect(s.Reconcile(ctx)).To(stage.BeExplained())
			reconciled++
		}
		going.Wait()

		clients := append(steady.Records(), churning.Records()...)
		stats := churning.Stats()
		report.Attach(report.Figure{Name: "connections a second", Value: float64(stats.Connected) / lasting.Seconds()})
		report.Attach(report.Figure{Name: "lists compared", Value: float64(len(taken))})
		report.Attach(report.Figure{Name: "reconciliations with the kernel", Value: float64(reconciled)})
		Expect(stats.Connected).To(BeNumerically(">", stage.Scale(100)))
		for i := range taken {
			Expect(taken[i].contradictions(clients, lag)).To(BeEmpty(), "list %d of %d", i+1, len(taken))
		}

		By("coming to rest")
		Eventually(func() []string { return differences(append(steady.Up(), churning.Up()...), s.Connections(ctx)) }).
			WithContext(ctx).WithTimeout(30 * time.Second).Should(BeEmpty())
		Eventually(churning.Stats).WithContext(ctx).WithTimeout(30 * time.Second).Should(HaveField("Up", 0))
		Eventually(func() []string { return differences(steady.Up(), s.Connections(ctx)) }).
			WithContext(ctx).WithTimeout(30 * time.Second).Should(BeEmpty())
		stage.AllUp(steady)
		for _, r := range churning.Records() {
			Expect(r.Err()).NotTo(HaveOccurred())
		}
		if s.KernelExact(ctx) {
			Eventually(s.KernelByClient).WithContext(ctx).WithTimeout(30 * time.Second).
				Should(Equal(stage.CountByClient(steady.Up())))
		}
		Expect(s.Reconcile(ctx)).To(stage.BeExplained())
	}, SpecTimeout(3*time.Minute))
})
