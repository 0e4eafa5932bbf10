package acl

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A consumer group", Label("acl"), stage.Needs(stage.Ranges), func() {
	It("of the classic kind takes members from its range alone, and reads what they may read", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4))
		s.CreateTopic(ctx, "orders", 1)
		s.Grant(ctx, "allow alice READ Topic:orders from 10.1.0.0/16", "allow alice READ Group:billing from 10.1.7.0/24",
			"allow bob WRITE Topic:orders from *")
		producer := s.Client(net4, "10.1.9.9", "SASL_PLAINTEXT", "bob", kgo.DefaultProduceTopic("orders"))
		Expect(producer.ProduceSync(ctx, kgo.StringRecord("a")).FirstErr()).NotTo(HaveOccurred())

		inside := s.Client(net4, "10.1.7.9", "SASL_PLAINTEXT", "alice", kgo.ConsumerGroup("billing"), kgo.ConsumeTopics("orders"))
		Expect(firstRecord(ctx, inside)).To(Equal("a"))
		Expect(inside.CommitUncommittedOffsets(ctx)).To(Succeed())

		p := from(ctx, s, net4, "alice", "10.1.7.0", "10.1.8.0")
		both := func(code int16) map[string]int16 { return map[string]int16{"10.1.7.0": code, "10.1.8.0": groupRefused} }
		const unknownMember = 25
		Expect(p.allowed(ctx, join("billing"))).To(Equal([]string{"10.1.7.0"}))
		Expect(p.codes(ctx, heartbeat("billing"))).To(Equal(both(unknownMember)))
		Expect(p.codes(ctx, offsets("billing"))).To(Equal(both(fine)))
		Expect(p.codes(ctx, describeGroup("billing"))).To(Equal(both(fine)))
		Expect(p.codes(ctx, join("other"))).To(Equal(map[string]int16{"10.1.7.0": groupRefused, "10.1.8.0": groupRefused}))
	}, SpecTimeout(stage.Within(time.Minute)))

	It("of the new kind takes members from its range alone, and only for topics that they may describe", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4))
		s.CreateTopic(ctx, "orders", 1)
		s.CreateTopic(ctx, "secret", 1)
		s.Grant(ctx, "allow alice READ Topic:orders from 10.1.0.0/16", "allow alice READ Group:billing from 10.1.7.0/24")
		p := from(ctx, s, net4, "alice", "10.1.7.0", "10.1.8.0")
		Expect(p.codes(ctx, member("billing", "orders"))).To(Equal(map[string]int16{"10.1.7.0": fine, "10.1.8.0": groupRefused}))
		Expect(p.codes(ctx, member("billing", "secret"))).To(Equal(map[string]int16{"10.1.7.0": topicRefused, "10.1.8.0": groupRefused}))
	}, SpecTimeout(stage.Within(time.Minute)))
})

// firstRecord is the value of the first record that c gets.
func firstRecord(ctx context.Context, c *kgo.Client) string {
	GinkgoHelper()
	fetches := c.PollFetches(ctx)
	Expect(fetches.Err()).NotTo(HaveOccurred())
	Expect(fetches.NumRecords()).To(BeNumerically(">", 0))
	return string(fetches.Records()[0].Value)
}

// heartbeat speaks as a member that the group does not have: READ on the group.
func heartbeat(group string) question {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 4, group, "nobody", 1
	return question{req, answerOf(func(r *kmsg.HeartbeatResponse) int16 { return r.ErrorCode })}
}

// offsets asks for all of a group's offsets: DESCRIBE on the group.
func offsets(group string) question {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group = 7, group
	return question{req, answerOf(func(r *kmsg.OffsetFetchResponse) int16 { return r.ErrorCode })}
}

// member joins a group of the new kind (KIP-848): READ on the group, DESCRIBE on the topics.
func member(group, topic string) question {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.RebalanceTimeoutMillis = 1, group, "WBfmLrZlQOGZ9cC6TQSQrg", 10_000
	req.SubscribedTopicNames, req.Topics = []string{topic}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return question{req, answerOf(func(r *kmsg.ConsumerGroupHeartbeatResponse) int16 { return r.ErrorCode })}
}
