package acl

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A host without a slash", Label("acl"), stage.Needs(stage.Ranges), func() {
	It("is only the text that Java prints: a compressed IPv6 address never matches, its /128 does", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet("10.0.0.0/24", "2001:db8::/64"))
		s.CreateTopic(ctx, "orders", 1)
		v4 := from(ctx, s, "10.0.0.0/24", "alice", "10.0.0.5")
		v6 := from(ctx, s, "2001:db8::/64", "alice", "2001:db8::1")
		var d decisions
		defer d.attach()
		for _, test := range []struct {
			host string
			may  bool
			p    *people
		}{
			{"2001:db8::1", false, v6},
			{"2001:db8:0:0:0:0:0:1", true, v6},
			{"2001:db8::1/128", true, v6},
			{"2001:DB8:0:0:0:0:0:1", false, v6},
			{"2001:0db8:0:0:0:0:0:1", false, v6},
			{"2001:DB8::1/128", true, v6},
			{"10.0.0.5", true, v4},
			{"10.0.0.05", false, v4},
			{"10.0.0.05/32", true, v4},
			{"::ffff:10.0.0.5", false, v4},
			{"10.0.0.1-10.0.0.100", false, v4},
			{"10.0.0.*", false, v4},
			{"app.example.com", false, v4},
			{"localhost", false, v4},
		} {
			rule := "allow alice READ Topic:orders from " + test.host
			s.Grant(ctx, rule)
			var want []string
			if test.may {
				want = test.p.addresses
			}
			d.check(ctx, test.host, test.p, read("orders"), want...)
			s.Revoke(ctx, rule)
		}
	}, SpecTimeout(stage.Within(time.Minute)))

	It("is compared with the address alone, and so the broker's log has it, whatever names the address has", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet("10.0.0.0/24", "2001:db8::/64"))
		s.CreateTopic(ctx, "orders", 1)
		s.Grant(ctx, "allow alice READ Topic:orders from 10.0.0.5")
		Expect(from(ctx, s, "10.0.0.0/24", "alice", "10.0.0.5", "10.0.0.6").allowed(ctx, read("orders"))).To(Equal([]string{"10.0.0.5"}))
		Expect(from(ctx, s, "2001:db8::/64", "alice", "2001:db8::1").allowed(ctx, read("orders"))).To(BeEmpty())
		Eventually(s.LogText).WithContext(ctx).WithTimeout(10 * time.Second).Should(And(
			ContainSubstring("Principal = User:alice is Denied operation = READ from host = 10.0.0.6 on resource = Topic:LITERAL:orders for request = Fetch with resourceRefCount = 1 based on rule DefaultDeny"),
			ContainSubstring("from host = 2001:db8:0:0:0:0:0:1 on resource"),
		))
	}, SpecTimeout(stage.Within(time.Minute)))
})
