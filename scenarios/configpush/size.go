package configpush

import (
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("client.config.max.bytes", Label("configpush"), stage.Needs(stage.ConfigPush), func() {
	It("counts bytes, not characters, to the last one, over each protocol and while it is altered", func(ctx SpecContext) {
		const key = "ключ"
		s := newGround(ctx, store)
		// of has so many bytes, in texts of two, three and four bytes a character.
		of := func(size int) fleet.Config {
			text := strings.Repeat("й日𝄞", (size-len(key))/9)
			return fleet.Config{Key: key, Value: text + strings.Repeat("a", size-len(key)-len(text))}
		}
		const most = configpush.DefaultMaxBytes
		for _, p := range protocols() {
			By(p.listener)
			f := in(ctx, s, one(s, p.listener, p.user, of(most)), one(s, p.listener, p.user, of(most+1)))
			Expect(f.Records()[0].Push).To(BeZero())
			Expect(f.Records()[1].Push).To(Equal(tooLarge))
			answer := repush(ctx, f, of(most+1))
			Expect(answer.ErrorCode).To(Equal(tooLarge))
			Expect(textOf(answer.ErrorMessage)).To(And(ContainSubstring("10241"), ContainSubstring("10240")))
			// The keys and values of a key that comes twice count twice.
			answer = repush(ctx, f, of(most/2+1), of(most/2))
			Expect(answer.ErrorCode).To(Equal(tooLarge), textOf(answer.ErrorMessage))
		}
		Expect(counted(ctx, s, "accepted")).To(Equal(len(protocols())), "the policy has not seen what is too large")
		Expect(counted(ctx, s, "too_large")).To(Equal(3 * len(protocols())))

		By("altering it")
		s.Set(ctx, "client.config.max.bytes=100")
		f := in(ctx, s, one(s, "PLAINTEXT", "", of(101)))
		Expect(f.Records()[0].Push).To(Equal(tooLarge))
		Expect(repush(ctx, f, of(100)).ErrorCode).To(BeZero())
		s.Unset(ctx, "client.config.max.bytes")
		Expect(repush(ctx, f, of(most)).ErrorCode).To(BeZero())
	}, SpecTimeout(2*time.Minute))
})
