package acl

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// Ways to ask for another level (UpdateFeatures).
const (
	upgrade         = 1
	safeDowngrade   = 2
	unsafeDowngrade = 3
)

// setLevel asks for a level of metadata.version and gives the code and text of the answer.
func setLevel(ctx context.Context, s *stage.Stage, level int16, how int8) (code int16, text string) {
	GinkgoHelper()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	one := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	one.Feature, one.MaxVersionLevel, one.UpgradeType = "metadata.version", level, how
	req.FeatureUpdates = append(req.FeatureUpdates, one)
	resp := s.Ask(ctx, req).(*kmsg.UpdateFeaturesResponse) //nolint:forcetypeassert // the answer to UpdateFeatures
	if resp.ErrorMessage != nil {
		text = *resp.ErrorMessage
	}
	return resp.ErrorCode, text
}

const (
	gateText     = "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."
	refusedLevel = "The update failed for all features since the following feature had an error: Unsupported metadata.version downgrade from "
)

// hosts are rules that differ in their hosts only.
func hosts(texts ...string) []acl.Binding {
	var all []acl.Binding
	for _, host := range texts {
		b := stage.Rule("allow alice READ Topic:orders")
		b.Host = host
		all = append(all, b)
	}
	return all
}

var _ = Describe("metadata.version", Label("acl"), stage.Needs(stage.Ranges), func() {
	It("below 4.4-IV1 refuses hosts with a slash, and an upgrade takes them without a restart", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Broker("metadata.version=4.3-IV0"), stage.Subnet(net4))
		s.CreateTopic(ctx, "orders", 1)
		p := from(ctx, s, net4, "alice", "10.1.7.0", "10.1.7.255", "10.1.8.0")
		gate := stage.Refusal{Code: unsupportedVersion, Text: gateText}
		old := func() {
			GinkgoHelper()
			Expect(s.Create(ctx, hosts("10.1.7.0/24", "bad/path", "", "10.1.8.0", "badhost", "*")...)).To(Equal([]stage.Refusal{
				gate, gate, {Code: invalidRequest, Text: "Host pattern cannot be null or empty"}, {}, {}, {},
			}))
			s.Revoke(ctx, "allow alice READ Topic:orders from *")
			Expect(p.allowed(ctx, read("orders"))).To(Equal([]string{"10.1.8.0"}))
		}
		old()
		Expect(first(setLevel(ctx, s, 31, upgrade))).To(BeZero())
		old()

		Expect(first(setLevel(ctx, s, 32, upgrade))).To(BeZero())
		Expect(s.Create(ctx, hosts("10.1.7.0/24", "bad/path", "10.1.7.1")...)).To(Equal([]stage.Refusal{
			{}, {Code: invalidRequest, Text: "Invalid CIDR notation 'bad/path': Could not parse [bad/path]"}, {},
		}), "good ones beside a bad one are created")
		Expect(p.allowed(ctx, read("orders"))).To(Equal(p.addresses))
		stage.AllUp(p.fleet)
	}, SpecTimeout(stage.Within(time.Minute)))

	It("does not go back over 4.4-IV1, safely or not, with rules for ranges or without", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4))
		back := func() {
			GinkgoHelper()
			for _, level := range []int16{32, 31, 30, 29, 7} {
				code, text := setLevel(ctx, s, level, safeDowngrade)
				Expect(code).To(BeEquivalentTo(invalidUpdate), "to %d", level)
				Expect(text).To(And(HavePrefix(refusedLevel), HaveSuffix("Refusing to perform the requested downgrade because it might delete metadata information.")))
				code, text = setLevel(ctx, s, level, unsafeDowngrade)
				Expect(code).To(BeEquivalentTo(invalidUpdate), "to %d", level)
				Expect(text).To(And(HavePrefix(refusedLevel), HaveSuffix("Unsafe metadata downgrade is not supported in this version.")))
				code, text = setLevel(ctx, s, level, upgrade)
				Expect(code).To(BeEquivalentTo(invalidUpdate), "to %d", level)
				Expect(text).To(ContainSubstring("Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."))
			}
		}
		back()
		s.Grant(ctx, "allow alice READ Topic:orders from 10.1.7.0/24")
		back()
		code, text := setLevel(ctx, s, 34, upgrade)
		Expect(code).To(BeEquivalentTo(invalidUpdate))
		Expect(text).To(ContainSubstring("only supports versions 7-33"))
		Expect(first(setLevel(ctx, s, 33, safeDowngrade))).To(BeZero(), "the present level is always fine")
	}, SpecTimeout(stage.Within(time.Minute)))

	It("between levels without a change of metadata goes back", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Broker("metadata.version=4.4-IV0"), stage.Subnet(net4))
		Expect(first(setLevel(ctx, s, 30, safeDowngrade))).To(BeZero())
		code, _ := setLevel(ctx, s, 29, safeDowngrade)
		Expect(code).To(BeEquivalentTo(invalidUpdate))
		Expect(s.Create(ctx, hosts("10.1.7.0/24")...)).To(Equal([]stage.Refusal{{Code: unsupportedVersion, Text: gateText}}))
	}, SpecTimeout(stage.Within(time.Minute)))
})

func first(code int16, _ string) int16 { return code }
