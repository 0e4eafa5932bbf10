package stage

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// Our broker answers a change when it acts by it. Apache Kafka answers when its controller has stored it, and the broker learns of it
// a moment later; specs are about what comes after, so the stage waits for that here.

// settleTime bounds that moment on a machine that is busy with other things.
const settleTime = 30 * time.Second

// settle waits until done, if the target is one that has to be waited for.
func (*Stage) settle(ctx context.Context, what string, done func() bool) {
	GinkgoHelper()
	if Target().IsKafka() {
		Eventually(done).WithContext(ctx).WithTimeout(settleTime).WithPolling(10*time.Millisecond).Should(BeTrue(), "the broker acts by %s", what)
	}
}

// HasRule tells whether the broker knows just this rule, as [Rule] reads it.
func (s *Stage) HasRule(ctx context.Context, rule string) bool {
	GinkgoHelper()
	return s.hasRule(ctx, Rule(rule))
}

// hasRule tells whether the broker knows just this rule.
func (s *Stage) hasRule(ctx context.Context, b acl.Binding) bool {
	GinkgoHelper()
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourceName, req.ResourcePatternType = kmsg.ACLResourceType(b.Type), &b.Name, kmsg.ACLResourcePatternType(b.Kind)
	req.Principal, req.Host = &b.Principal, &b.Host
	req.Operation, req.PermissionType = kmsg.ACLOperation(b.Operation), kmsg.ACLPermissionType(b.Permission)
	return s.hasRules(ctx, req)
}

// hasAnyRule tells whether the broker knows a rule at all.
func (s *Stage) hasAnyRule(ctx context.Context) bool {
	GinkgoHelper()
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	return s.hasRules(ctx, req)
}

func (s *Stage) hasRules(ctx context.Context, req *kmsg.DescribeACLsRequest) bool {
	GinkgoHelper()
	resp, ok := s.Ask(ctx, req).(*kmsg.DescribeACLsResponse)
	Expect(ok).To(BeTrue())
	Expect(resp.ErrorCode).To(BeZero(), textOf(resp.ErrorMessage))
	return len(resp.Resources) > 0
}

// hasConfigs tells whether the broker says of itself that these keys are set as they were just altered.
func (s *Stage) hasConfigs(ctx context.Context, changes []kmsg.IncrementalAlterConfigsRequestResourceConfig) bool {
	GinkgoHelper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeBroker, s.node.Config["node.id"]
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(ctx, s.self())
	Expect(err).NotTo(HaveOccurred())
	Expect(resp.Resources).To(HaveLen(1))
	Expect(resp.Resources[0].ErrorCode).To(BeZero(), textOf(resp.Resources[0].ErrorMessage))
	for i := range changes {
		change := &changes[i]
		at := slices.IndexFunc(resp.Resources[0].Configs, func(c kmsg.DescribeConfigsResponseResourceConfig) bool { return c.Name == change.Name })
		dynamic := at >= 0 && resp.Resources[0].Configs[at].Source == kmsg.ConfigSourceDynamicBrokerConfig
		if change.Op == deleted {
			if dynamic {
				return false
			}
			continue
		}
		// A value of a key that Kafka calls sensitive is not told.
		if !dynamic || resp.Resources[0].Configs[at].Value != nil && *resp.Resources[0].Configs[at].Value != *change.Value {
			return false
		}
	}
	return true
}

// settleQuotas waits until the broker acts by quotas that were stored just now. It tells of quotas as soon as it begins to take a batch of
// changes in, and takes batches in one after another; so once it acts by a change that was made after that, it acts by them.
func (s *Stage) settleQuotas(ctx context.Context, told func() bool) {
	GinkgoHelper()
	if !Target().IsKafka() {
		return
	}
	s.settle(ctx, "the quota", told)
	const harmless = "leader.replication.throttled.rate" // of a cluster of one
	s.Set(ctx, harmless+"=1000000000")
	s.Unset(ctx, harmless)
}

// settleTopic waits until a topic has its leaders.
func (s *Stage) settleTopic(ctx context.Context, name string, partitions int32) {
	GinkgoHelper()
	s.settle(ctx, "topic "+name, func() bool {
		topics, err := s.kadm.ListTopics(ctx, name)
		if err != nil || topics[name].Err != nil {
			return false
		}
		led := int32(0)
		for _, p := range topics[name].Partitions {
			if p.Err == nil && p.Leader >= 0 {
				led++
			}
		}
		return led == partitions
	})
}

// Coordinators waits until groups and transactions have coordinators: Apache Kafka makes the topics that they keep their state in when
// somebody first asks for one.
func (s *Stage) Coordinators(ctx context.Context) {
	GinkgoHelper()
	for _, kind := range []int8{0, 1} { // of groups, of transactions
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = kind, "any", []string{"any"} // for old versions and for new ones
		Eventually(func(eventually Gomega) {
			resp, err := req.RequestWith(ctx, s.client)
			eventually.Expect(err).NotTo(HaveOccurred())
			eventually.Expect(resp.ErrorCode).To(BeZero())
			for i := range resp.Coordinators {
				eventually.Expect(resp.Coordinators[i].ErrorCode).To(BeZero())
			}
		}).WithContext(ctx).WithTimeout(settleTime).Should(Succeed())
	}
}
