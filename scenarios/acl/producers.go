package acl

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A producer", Label("acl"), stage.Needs(stage.Ranges), func() {
	It("is idempotent with nothing but WRITE on a topic from its range, and refused from beside it", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4))
		s.CreateTopic(ctx, "orders", 1)
		s.Grant(ctx, "allow alice WRITE Topic:orders from 10.1.7.0/24")
		inside := s.Client(net4, "10.1.7.9", "SASL_PLAINTEXT", "alice", kgo.DefaultProduceTopic("orders"))
		Expect(inside.ProduceSync(ctx, kgo.StringRecord("a"), kgo.StringRecord("b")).FirstErr()).NotTo(HaveOccurred())
		Expect(s.EndOffset(ctx, "orders", 0)).To(BeEquivalentTo(2))
		beside := s.Client(net4, "10.1.8.9", "SASL_PLAINTEXT", "alice", kgo.DefaultProduceTopic("orders"), kgo.RecordRetries(0))
		Expect(beside.ProduceSync(ctx, kgo.StringRecord("c")).FirstErr()).To(Or(
			MatchError(kerr.TopicAuthorizationFailed), MatchError(kerr.ClusterAuthorizationFailed)))
		Expect(s.EndOffset(ctx, "orders", 0)).To(BeEquivalentTo(2))

		p := from(ctx, s, net4, "alice", "10.1.7.0", "10.1.8.0")
		Expect(p.codes(ctx, idempotent())).To(Equal(map[string]int16{"10.1.7.0": fine, "10.1.8.0": clusterRefused}))
		By("a DENY of all topics")
		s.Grant(ctx, "deny alice WRITE Topic:* from 10.1.7.0/24")
		Expect(p.codes(ctx, idempotent())).To(Equal(map[string]int16{"10.1.7.0": clusterRefused, "10.1.8.0": clusterRefused}))
		By("IDEMPOTENT_WRITE on the cluster from the other range")
		s.Grant(ctx, "allow alice IDEMPOTENT_WRITE Cluster from 10.1.8.0/24")
		Expect(p.codes(ctx, idempotent())).To(Equal(map[string]int16{"10.1.7.0": clusterRefused, "10.1.8.0": fine}))
	}, SpecTimeout(stage.Within(time.Minute)))

	It("is idempotent unless a DENY covers all that it may write", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4))
		p := from(ctx, s, net4, "alice", "10.1.7.1")
		for _, test := range []struct {
			rules []string
			code  int16
		}{
			{nil, clusterRefused},
			{[]string{"allow alice WRITE Topic:a* from 10.1.7.0/24", "deny alice WRITE Topic:* from 10.1.0.0/16"}, clusterRefused},
			{[]string{"allow alice WRITE Topic:ab from 10.1.7.0/24", "deny alice WRITE Topic:a* from 10.1.0.0/16"}, clusterRefused},
			{[]string{"allow alice WRITE Topic:ab from 10.1.7.0/24", "deny alice WRITE Topic:abc* from 10.1.0.0/16"}, fine},
			{[]string{"allow alice WRITE Topic:ab from 10.1.7.0/24", "deny alice WRITE Topic:ab from 10.1.7.1"}, clusterRefused},
			{[]string{"allow alice WRITE Topic:ab from 10.1.7.0/24", "deny alice WRITE Topic:ab from 10.1.8.0/24"}, fine},
			{[]string{"allow alice WRITE Topic:ab from 10.1.8.0/24"}, clusterRefused},
			{[]string{"allow alice READ Topic:ab from 10.1.7.0/24"}, clusterRefused},
			{[]string{"allow * WRITE Topic:* from 10.1.7.0/24"}, fine},
			{[]string{"allow * ALL Topic:x* from 10.1.7.0/24"}, fine},
		} {
			if test.rules != nil {
				s.Grant(ctx, test.rules...)
			}
			Expect(p.codes(ctx, idempotent())).To(HaveKeyWithValue("10.1.7.1", test.code), "%v", test.rules)
			s.RevokeAll(ctx)
		}
	}, SpecTimeout(stage.Within(time.Minute)))

	It("commits transactions from its range, and is refused its transactional id from beside it", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4))
		s.CreateTopic(ctx, "orders", 1)
		s.Grant(ctx, "allow alice WRITE Topic:orders from 10.1.0.0/16",
			"allow alice WRITE TransactionalId:pay* from 10.1.7.0/24", "allow alice DESCRIBE TransactionalId:pay* from 10.1.7.0/24")
		inside := s.Client(net4, "10.1.7.9", "SASL_PLAINTEXT", "alice", kgo.DefaultProduceTopic("orders"), kgo.TransactionalID("payments"))
		Expect(inside.BeginTransaction()).To(Succeed())
		Expect(inside.ProduceSync(ctx, kgo.StringRecord("a")).FirstErr()).NotTo(HaveOccurred())
		Expect(inside.EndTransaction(ctx, kgo.TryCommit)).To(Succeed())

		p := from(ctx, s, net4, "alice", "10.1.7.0", "10.1.8.0")
		Expect(p.codes(ctx, transactional("pay-1"))).To(Equal(map[string]int16{"10.1.7.0": fine, "10.1.8.0": transactionalIDRefused}))
		Expect(p.codes(ctx, transactional("refunds"))).To(Equal(map[string]int16{"10.1.7.0": transactionalIDRefused, "10.1.8.0": transactionalIDRefused}))
		beside := s.Client(net4, "10.1.8.9", "SASL_PLAINTEXT", "alice", kgo.DefaultProduceTopic("orders"), kgo.TransactionalID("payments"))
		err := beside.BeginTransaction() // the client may ask for its producer id here, or later
		if err == nil {
			err = beside.ProduceSync(ctx, kgo.StringRecord("b")).FirstErr()
		}
		Expect(err).To(MatchError(kerr.TransactionalIDAuthorizationFailed))
	}, SpecTimeout(stage.Within(time.Minute)))
})
