package acl

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A change of rules", Label("acl"), stage.Needs(stage.Ranges), func() {
	It("acts on connections that are open, each time that they ask", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4))
		s.CreateTopic(ctx, "orders", 1)
		p := from(ctx, s, net4, "alice", "10.1.7.0", "10.1.7.255", "10.1.8.0")
		inside := []string{"10.1.7.0", "10.1.7.255"}
		for range 20 {
			Expect(p.allowed(ctx, read("orders"))).To(BeEmpty())
			s.Grant(ctx, "allow alice ALL Topic:orders from 10.1.7.0/24")
			Expect(p.allowed(ctx, read("orders"))).To(Equal(inside))
			Expect(p.allowed(ctx, write("orders"))).To(Equal(inside))
			s.Grant(ctx, "deny alice READ Topic:orders from 10.1.7.255")
			Expect(p.allowed(ctx, read("orders"))).To(Equal([]string{"10.1.7.0"}))
			s.RevokeAll(ctx)
		}
		stage.AllUp(p.fleet)
		Expect(s.Connections(ctx)).To(HaveLen(3), "nobody was cut off")
	}, SpecTimeout(stage.Within(time.Minute)))

	It("acts on a fetch session that was granted, at its next fetch", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4))
		s.CreateTopic(ctx, "orders", 1)
		const rule = "allow alice READ Topic:orders from 10.1.7.0/24"
		s.Grant(ctx, rule)
		p := from(ctx, s, net4, "alice", "10.1.7.1")
		first := fetch("orders", 0)
		first.SessionEpoch = 0 // begin a session
		resp, err := p.fleet.Call(ctx, 0, first)
		Expect(err).NotTo(HaveOccurred())
		session := resp.(*kmsg.FetchResponse) //nolint:forcetypeassert // the answer to a Fetch
		Expect(fetchCode(session)).To(BeZero())
		if session.SessionID == 0 {
			By("the broker keeps no sessions: each fetch names its partitions")
			s.Revoke(ctx, rule)
			Expect(p.codes(ctx, read("orders"))).To(HaveKeyWithValue("10.1.7.1", int16(topicRefused)))
			return
		}
		s.Revoke(ctx, rule)
		next := fetch("orders", 0)
		next.SessionID, next.SessionEpoch, next.Topics = session.SessionID, 1, nil // nothing named: what the session has
		resp, err = p.fleet.Call(ctx, 0, next)
		Expect(err).NotTo(HaveOccurred())
		Expect(fetchCode(resp.(*kmsg.FetchResponse))).To(BeEquivalentTo(topicRefused)) //nolint:forcetypeassert // the answer to a Fetch
	}, SpecTimeout(stage.Within(time.Minute)))

	It("leaves a fetch that waits its connection, and refuses the one after it", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4))
		s.CreateTopic(ctx, "orders", 1)
		const rule = "allow alice READ Topic:orders from 10.1.7.0/24"
		s.Grant(ctx, rule, "allow bob WRITE Topic:orders")
		p, producer := from(ctx, s, net4, "alice", "10.1.7.1"), from(ctx, s, net4, "bob", "10.1.9.1")
		answer := make(chan error, 1)
		go func() {
			defer GinkgoRecover()
			_, err := p.fleet.Call(ctx, 0, fetch("orders", 20*time.Second))
			answer <- err
		}()
		Consistently(answer).WithTimeout(200 * time.Millisecond).ShouldNot(Receive())
		s.Revoke(ctx, rule)
		Expect(producer.codes(ctx, write("orders"))).To(HaveKeyWithValue("10.1.9.1", int16(fine)))
		Eventually(answer).WithContext(ctx).WithTimeout(15 * time.Second).Should(Receive(Not(HaveOccurred())))
		Expect(p.codes(ctx, read("orders"))).To(HaveKeyWithValue("10.1.7.1", int16(topicRefused)))
		stage.AllUp(p.fleet)
	}, SpecTimeout(stage.Within(time.Minute)))
})
