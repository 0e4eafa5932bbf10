package limits

import (
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A broker that comes back", Label("limits"), func() {
	It("loses nobody of those who all come back at once, and turns away the fewer the larger its backlog is", func(ctx SpecContext) {
		crowd := stage.Scale(2000)
		table := report.Table{
			Name:    "All clients reconnect while the broker does not accept yet",
			Columns: []string{"socket.listen.backlog.size", "clients", "ListenOverflows", "ListenDrops", "sk_drops", "ready p50, ms", "p99, ms", "max, ms"},
		}
		var overflows []int64
		for _, backlog := range []int{50, 4096} {
			By("socket.listen.backlog.size=" + strconv.Itoa(backlog))
			limit := crowd + 100
			g := newGround(ctx, "socket.listen.backlog.size="+text(backlog), "max.connections="+text(limit))
			group := g.Group(clientNet, plain, "", crowd)
			before := g.in(ctx, group)
			Expect(g.Node().Kill(ctx)).To(Succeed())
			Eventually(before.UpCount).WithContext(ctx).WithTimeout(patience).Should(BeZero())
			Expect(g.Node().Start(ctx)).To(Succeed())
			Eventually(g.Ping).WithContext(ctx).WithTimeout(patience).Should(Succeed())
			w := g.watch(ctx, limit, plain)
			full, dropped := g.Overflows(ctx)
			thaw := g.Freeze(ctx) // it is back, and busy with other things
			back := g.come(ctx, fleet.Plan{Groups: []fleet.Group{group}})
			Eventually(func() int { return back.Stats().Begun }).WithContext(ctx).WithTimeout(patience).Should(Equal(crowd))
			Eventually(func() bool {
				now, _ := g.Overflows(ctx)
				return now > full || back.Stats().Connected == crowd
			}).WithContext(ctx).WithTimeout(patience).Should(BeTrue(), "the queue is full, or has room for all")
			thaw()
			Eventually(back.UpCount).WithContext(ctx).WithTimeout(time.Minute).Should(Equal(crowd), "everybody is back")
			fullNow, droppedNow := g.Overflows(ctx)
			overflows = append(overflows, fullNow-full)
			h := back.Latencies()[fleet.ReadyLatency]
			table.Rows = append(table.Rows, []string{
				strconv.Itoa(backlog), strconv.Itoa(crowd), strconv.FormatInt(fullNow-full, 10), strconv.FormatInt(droppedNow-dropped, 10),
				strconv.FormatInt(g.Listener(ctx, plain).Drops, 10),
				milliseconds(h.ValueAtQuantile(50)), milliseconds(h.ValueAtQuantile(99)), milliseconds(h.Max()),
			})
			w.end(ctx, "backlog "+text(backlog))
			leave(back, 0, fleet.FIN)
			g.atRest(ctx)
		}
		report.Attach(table)
		if crowd > 200 {
			Expect(overflows[0]).To(BeNumerically(">", 0), "50 are too few for so many")
			Expect(overflows[1]).To(BeNumerically("<", overflows[0]))
		}
	}, SpecTimeout(stage.Within(4*time.Minute)))
})
