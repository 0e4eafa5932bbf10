package configpush

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/configpush/push"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("Configuration push that is off", Label("configpush"), stage.Needs(stage.ConfigPush), func() {
	It("is not listed by a broker without a policy, and not used by clients that could", func(ctx SpecContext) {
		s := newGround(ctx)
		for _, p := range protocols() {
			By(p.listener)
			g := one(s, p.listener, p.user)
			g.HelloVersion = -1
			if !g.Protocol.SASL() { // there it is the first thing that is said
				f := in(ctx, s, g)
				Expect(lists(ctx, f)).To(BeFalse())
			}
			// Who pushes all the same is told so and keeps its connection.
			f := in(ctx, s, one(s, p.listener, p.user, fleet.Config{Key: "acks", Value: "1"}))
			Expect(f.Records()[0].Push).To(BeEquivalentTo(unsupportedVersion))
			Expect(lists(ctx, f)).To(BeFalse())

			r, hook := &recorder{}, push.New(push.Config{})
			c := client(s, p.listener, p.user, r, kgo.WithHooks(hook))
			Expect(c.Ping(ctx)).To(Succeed())
			result, _ := hook.Result()
			Expect(result.Outcome).To(Equal(push.Unsupported))
			Expect(r.pushes()).To(BeZero())
		}
	}, SpecTimeout(time.Minute))

	It("changes nothing for a client that is too old for it, or has it switched off", func(ctx SpecContext) {
		s := newGround(ctx, store)
		for _, p := range protocols() {
			By(p.listener)
			f := in(ctx, s, one(s, p.listener, p.user))
			Expect(lists(ctx, f)).To(BeTrue())
			without, off, hook := &recorder{}, &recorder{}, push.New(push.Config{Disable: true})
			for r, options := range map[*recorder][]kgo.Opt{without: nil, off: {kgo.WithHooks(hook)}} {
				Expect(client(s, p.listener, p.user, r, append(options, kgo.DisableClientMetrics())...).Ping(ctx)).To(Succeed())
				Expect(r.pushes()).To(BeZero())
			}
			Expect(off.all()).To(Equal(without.all()), "to the broker they are the same")
		}
		Expect(kept(ctx, s)).To(BeEmpty())
	}, SpecTimeout(time.Minute))
})

// lists tells whether the broker lists PushConfig to the first client of f.
func lists(ctx SpecContext, f *fleet.Fleet) bool {
	GinkgoHelper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 3, fleet.DefaultSoftware, fleet.DefaultSoftwareVersion
	resp, err := f.Call(ctx, 0, req)
	Expect(err).NotTo(HaveOccurred())
	keys := resp.(*kmsg.ApiVersionsResponse).ApiKeys //nolint:forcetypeassert // the answer to an ApiVersions
	Expect(keys).NotTo(BeEmpty())
	for i := range keys {
		if keys[i].ApiKey == keyPush {
			return true
		}
	}
	return false
}
