package acl

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A topic that is missing", Label("acl"), stage.Needs(stage.Ranges), func() {
	It("is created for whoever may create it, from their range alone, by asking for it or by name", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Broker("auto.create.topics.enable=true"), stage.Subnet(net4))
		s.Grant(ctx, "allow alice DESCRIBE Topic:new* from 10.1.0.0/16", "allow alice CREATE Topic:new* from 10.1.7.0/24",
			"allow bob DESCRIBE Topic:new* from *", "allow bob CREATE Cluster from 10.1.8.0/24")
		alice := from(ctx, s, net4, "alice", "10.1.8.0", "10.1.7.0")
		bob := from(ctx, s, net4, "bob", "10.1.7.0", "10.1.8.0")
		exists := func(topic string) int16 {
			GinkgoHelper()
			q := describe(topic)
			return q.code(s.Ask(ctx, q.request))
		}

		By("asking for it")
		Expect(alice.codes(ctx, metadata("secret", true))).To(Equal(map[string]int16{"10.1.8.0": topicRefused, "10.1.7.0": topicRefused}))
		Expect(exists("secret")).To(BeEquivalentTo(unknownTopic), "a refused request creates nothing")
		Expect(alice.codes(ctx, metadata("new-1", false))).To(Equal(map[string]int16{"10.1.8.0": unknownTopic, "10.1.7.0": unknownTopic}))
		codes := alice.codes(ctx, metadata("new-1", true)) // first from where it is refused
		Expect(codes["10.1.8.0"]).To(BeEquivalentTo(topicRefused))
		Expect(refused(codes["10.1.7.0"])).To(BeFalse())
		Eventually(func() int16 { return exists("new-1") }).WithContext(ctx).Should(BeZero())
		codes = bob.codes(ctx, metadata("new-2", true))
		Expect(codes["10.1.7.0"]).To(BeEquivalentTo(topicRefused))
		Expect(refused(codes["10.1.8.0"])).To(BeFalse())

		By("CreateTopics")
		Expect(alice.codes(ctx, create("new-3"))).To(Equal(map[string]int16{"10.1.8.0": topicRefused, "10.1.7.0": fine}))
		Expect(alice.codes(ctx, create("other"))).To(Equal(map[string]int16{"10.1.8.0": topicRefused, "10.1.7.0": topicRefused}))
		Expect(bob.codes(ctx, create("other"))).To(Equal(map[string]int16{"10.1.7.0": topicRefused, "10.1.8.0": fine}))
	}, SpecTimeout(stage.Within(time.Minute)))

	It("does not show: who may not describe it is refused it, there or not", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4))
		s.CreateTopic(ctx, "there", 1)
		s.CreateTopic(ctx, "mine", 1)
		s.Grant(ctx, "allow alice DESCRIBE Topic:mine from 10.1.7.0/24", "allow alice DESCRIBE Topic:gone from 10.1.7.0/24")
		p := from(ctx, s, net4, "alice", "10.1.7.0", "10.1.8.0")
		for _, q := range []question{describe("there"), describe("missing"), write("there"), write("missing"), read("there"), read("missing")} {
			Expect(p.codes(ctx, q)).To(Equal(map[string]int16{"10.1.7.0": topicRefused, "10.1.8.0": topicRefused}))
		}
		Expect(p.codes(ctx, describe("gone"))).To(Equal(map[string]int16{"10.1.7.0": unknownTopic, "10.1.8.0": topicRefused}))
		all := kmsg.NewPtrMetadataRequest()
		all.Version = 9
		for id, want := range [][]string{{"mine"}, {}} {
			resp, err := p.fleet.Call(ctx, id, all)
			Expect(err).NotTo(HaveOccurred())
			names := []string{}
			for _, t := range resp.(*kmsg.MetadataResponse).Topics { //nolint:forcetypeassert // the answer to Metadata
				names = append(names, *t.Topic)
			}
			Expect(names).To(Equal(want), "all topics, from %s", p.addresses[id])
		}
	}, SpecTimeout(stage.Within(time.Minute)))
})

// create asks for a topic by name: CREATE on the cluster or the topic.
func create(topic string) question {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 5, 30_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, 1, 1
	req.Topics = append(req.Topics, t)
	return question{req, answerOf(func(r *kmsg.CreateTopicsResponse) int16 { return r.Topics[0].ErrorCode })}
}
