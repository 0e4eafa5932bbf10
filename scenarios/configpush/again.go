package configpush

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A client that pushes again", Label("configpush"), stage.Needs(stage.ConfigPush), func() {
	It("replaces what it pushed, and is refused for a while when it goes on and on", func(ctx SpecContext) {
		s := newGround(ctx, store)
		f := in(ctx, s, one(s, "SASL_SSL", "alice", fleet.Config{Key: "linger.ms", Value: "5"}))
		Expect(repush(ctx, f, fleet.Config{Key: "linger.ms", Value: "6"}).ErrorCode).To(BeZero())
		rows := kept(ctx, s)
		Expect(rows).To(HaveLen(1))
		Expect(rows[0].Configurations).To(HaveLen(1), "one client, one configuration: not an ambiguous one")
		Expect(rows[0].Configurations[0].Entries[0].Value).To(Equal("6"))

		refused := 0
		for range 150 {
			if code := repush(ctx, f, fleet.Config{Key: "linger.ms", Value: "6"}).ErrorCode; code != 0 {
				Expect(code).To(BeEquivalentTo(unknownServerError))
				refused++
			}
		}
		Expect(refused).To(BeNumerically(">", 0))
		Expect(counted(ctx, s, "too_often")).To(Equal(refused))
		stay := in(ctx, s, one(s, "SASL_SSL", "alice", fleet.Config{Key: "linger.ms", Value: "6"}))
		Expect(stay.Records()[0].Push).To(BeZero(), "it is that connection alone that is refused")
	}, SpecTimeout(time.Minute))

	It("is named with how often, if it sends what is too large for ever", func(ctx SpecContext) {
		s := newGround(ctx, store, "client.config.max.bytes=1024")
		g := one(s, "PLAINTEXT", "", fleet.Config{Key: "x", Value: strings.Repeat("v", 5<<10)})
		g.ClientID = "stubborn"
		f := in(ctx, s, g)
		for range 63 {
			Expect(repush(ctx, f, g.Push...).ErrorCode).To(Equal(tooLarge))
		}
		Expect(counted(ctx, s, "too_large")).To(Equal(64))
		Eventually(s.LogText).WithTimeout(patience).Should(MatchRegexp(`too large.*refused_on_connection=64.*client_id=stubborn`))
	}, SpecTimeout(time.Minute))

	It("is refused for a key that is empty or comes twice", func(ctx SpecContext) {
		s := newGround(ctx, store)
		f := in(ctx, s, one(s, "PLAINTEXT", "", fleet.Config{Key: "", Value: "1"}))
		Expect(f.Records()[0].Push).To(BeEquivalentTo(invalidRequest))
		Expect(repush(ctx, f, fleet.Config{Key: "acks"}, fleet.Config{Key: "acks"}).ErrorCode).To(BeEquivalentTo(invalidRequest))
		Expect(kept(ctx, s)).To(BeEmpty())
		Expect(repush(ctx, f, fleet.Config{Key: "acks"}).ErrorCode).To(BeZero(), "an empty value is one")
		Expect(repush(ctx, f).ErrorCode).To(BeZero(), "and so is a push of nothing")
	}, SpecTimeout(time.Minute))
})
