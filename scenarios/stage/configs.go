package stage

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// setTo and deleted are operations of IncrementalAlterConfigs.
const (
	setTo   = kmsg.IncrementalAlterConfigOpSet
	deleted = kmsg.IncrementalAlterConfigOpDelete
)

// Set alters configs of the broker while it runs, as key=value, and has to succeed.
func (s *Stage) Set(ctx context.Context, properties ...string) {
	GinkgoHelper()
	Expect(s.TrySet(ctx, properties...)).To(Equal(Refusal{}), "alter %s", strings.Join(properties, ", "))
}

// TrySet is [Stage.Set] where a refusal is one of the answers.
func (s *Stage) TrySet(ctx context.Context, properties ...string) Refusal {
	GinkgoHelper()
	var all []kmsg.IncrementalAlterConfigsRequestResourceConfig
	for _, property := range properties {
		key, value, ok := strings.Cut(property, "=")
		Expect(ok).To(BeTrue(), "%q is not key=value", property)
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = key, setTo, &value
		all = append(all, c)
	}
	return s.alter(ctx, all)
}

// Unset takes back what [Stage.Set] has set.
func (s *Stage) Unset(ctx context.Context, keys ...string) {
	GinkgoHelper()
	var all []kmsg.IncrementalAlterConfigsRequestResourceConfig
	for _, key := range keys {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op = key, deleted
		all = append(all, c)
	}
	Expect(s.alter(ctx, all)).To(Equal(Refusal{}), "delete %s", strings.Join(keys, ", "))
}

func (s *Stage) alter(ctx context.Context, changes []kmsg.IncrementalAlterConfigsRequestResourceConfig) Refusal {
	GinkgoHelper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.Configs = kmsg.ConfigResourceTypeBroker, s.node.Config["node.id"], changes
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(ctx, s.self())
	Expect(err).NotTo(HaveOccurred())
	Expect(resp.Resources).To(HaveLen(1))
	if resp.Resources[0].ErrorCode == 0 {
		s.settle(ctx, "what was altered", func() bool { return s.hasConfigs(ctx, changes) })
	}
	return Refusal{Code: resp.Resources[0].ErrorCode, Text: textOf(resp.Resources[0].ErrorMessage)}
}

// connectionRate is the quota of an address.
const connectionRate = "connection_creation_rate"

// EachIP is what [Stage.SetIPRate] takes for all addresses that have no rate of their own.
const EachIP = ""

// SetIPRate lets an address make so many connections a second (connection_creation_rate of an ip entity); a negative rate takes the
// quota away.
func (s *Stage) SetIPRate(ctx context.Context, address string, rate float64) {
	GinkgoHelper()
	req := kmsg.NewPtrAlterClientQuotasRequest()
	entry := kmsg.NewAlterClientQuotasRequestEntry()
	entity := kmsg.NewAlterClientQuotasRequestEntryEntity()
	entity.Type = "ip"
	if address != EachIP {
		entity.Name = &address
	}
	entry.Entity = append(entry.Entity, entity)
	op := kmsg.NewAlterClientQuotasRequestEntryOp()
	op.Key, op.Value, op.Remove = connectionRate, rate, rate < 0
	entry.Ops = append(entry.Ops, op)
	req.Entries = append(req.Entries, entry)
	resp, err := req.RequestWith(ctx, s.self())
	Expect(err).NotTo(HaveOccurred())
	Expect(resp.Entries).To(HaveLen(1))
	Expect(resp.Entries[0].ErrorCode).To(BeZero(), textOf(resp.Entries[0].ErrorMessage))
	s.settleQuotas(ctx, func() bool { return s.hasIPRate(ctx, entity.Name, rate) })
}

// hasIPRate tells whether the broker says that an address (nil: all that have no rate of their own) has just this rate; negative: none.
func (s *Stage) hasIPRate(ctx context.Context, address *string, rate float64) bool {
	GinkgoHelper()
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	component := kmsg.NewDescribeClientQuotasRequestComponent()
	component.EntityType, component.MatchType, component.Match = "ip", kmsg.QuotasMatchTypeExact, address
	if address == nil {
		component.MatchType = kmsg.QuotasMatchTypeDefault
	}
	req.Components, req.Strict = append(req.Components, component), true
	resp, err := req.RequestWith(ctx, s.self())
	Expect(err).NotTo(HaveOccurred())
	Expect(resp.ErrorCode).To(BeZero(), textOf(resp.ErrorMessage))
	for i := range resp.Entries {
		for _, v := range resp.Entries[i].Values {
			if v.Key == connectionRate {
				return v.Value == rate
			}
		}
	}
	return rate < 0
}
