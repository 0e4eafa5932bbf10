package configpush

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/configpush/push"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A client's first connection", Label("configpush"), stage.Needs(stage.ConfigPush), func() {
	It("carries one push, after authentication and before any other request, over each protocol", func(ctx SpecContext) {
		s := newGround(ctx, store)
		for _, p := range protocols() {
			By(p.listener)
			r, hook := &recorder{}, push.New(push.Config{})
			c := client(s, p.listener, p.user, r, kgo.WithHooks(hook))
			Expect(c.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("v")}).FirstErr()).To(Succeed())
			c.AddConsumeTopics("orders")
			Expect(c.PollFetches(ctx).Err()).NotTo(HaveOccurred())

			result, decided := hook.Result()
			Expect(decided).To(BeTrue())
			Expect(result.Outcome).To(Equal(push.Accepted), "%+v", result)
			report.Attach(report.Figure{Name: "added to the first call over " + p.listener, Value: milliseconds(result.Took), Unit: "ms"})
			want := []event{{0, keyVersions, false}, {0, keyVersions, true}}
			if s.Group(clientNet, p.listener, p.user, 1).Protocol.SASL() {
				want = append(want, event{0, keyHandshake, false}, event{0, keyHandshake, true}, event{0, keyAuthenticate, false}, event{0, keyAuthenticate, true})
			}
			want = append(want, event{0, keyVersions, false}, event{0, keyVersions, true}, event{0, keyPush, false}, event{0, keyPush, true})
			Expect(onFirst(r.all())[:len(want)]).To(Equal(want))
			Expect(r.all()).To(ContainElement(Satisfy(func(e event) bool { return e.connection > 1 })), "it has several connections")
			Expect(r.pushes()).To(Equal(1))
		}
		rows := kept(ctx, s)
		Expect(rows).To(HaveLen(len(protocols())))
		for i, p := range protocols() {
			Expect(rows[i].ListenerName).To(Equal(p.listener))
			Expect(rows[i].ClientID).To(Equal("of " + p.listener))
			Expect(rows[i].Principal).To(Equal(s.Group(clientNet, p.listener, p.user, 1).Principal))
			Expect(rows[i].Configurations).To(HaveLen(1))
			Expect(rows[i].Configurations[0].Entries).To(ContainElement(And(
				HaveField("Key", "client.id"), HaveField("Value", "of "+p.listener), HaveField("Default", false))))
		}
	}, SpecTimeout(2*time.Minute))
})

// onFirst is what went over a client's first connection.
func onFirst(events []event) []event {
	var first []event
	for _, e := range events {
		if e.connection == 0 {
			first = append(first, e)
		}
	}
	return first
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
