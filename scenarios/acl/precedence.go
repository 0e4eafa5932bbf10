package acl

import (
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("Among rules for nested ranges", Label("acl"), stage.Needs(stage.Ranges), func() {
	It("a DENY wins over every ALLOW, whichever is wider and whichever came first, and ALLOWs add up", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet("10.0.0.0/8", "2001:db8::/32"))
		s.CreateTopic(ctx, "orders", 1)
		s.CreateTopic(ctx, "payments", 1)
		v4 := from(ctx, s, "10.0.0.0/8", "alice", "10.1.0.5", "10.1.0.200", "10.1.1.5", "10.200.0.1")
		v6 := from(ctx, s, "2001:db8::/32", "alice", "2001:db8:abcd::5", "2001:db8:abcd:ffff::1", "2001:db8:1::5")
		const ab, a, outside = "allow alice READ Topic:orders from ", "10.1.0.5", "10.200.0.1"
		var d decisions
		defer d.attach()
		for _, test := range []struct {
			name  string
			rules []string
			want4 []string
			want6 []string
		}{
			{
				"DENY inside a wider ALLOW",
				[]string{ab + "10.0.0.0/8", "deny alice READ Topic:orders from 10.1.0.0/25", ab + "2001:db8::/32", "deny alice READ Topic:orders from 2001:db8:abcd::/48"},
				[]string{"10.1.0.200", "10.1.1.5", outside},
				[]string{"2001:db8:1::5"},
			},
			{"ALLOW inside a wider DENY", []string{"deny alice READ Topic:orders from 10.0.0.0/8", ab + "10.1.0.0/24", ab + "*", "deny alice READ Topic:orders from 2001:db8::/32"}, nil, nil},
			{"DENY inside an ALLOW for everywhere", []string{ab + "*", "deny alice READ Topic:orders from 10.1.0.0/24"}, []string{"10.1.1.5", outside}, v6.addresses},
			{"DENY for one address", []string{ab + "10.1.0.0/16", "deny alice READ Topic:orders from 10.1.0.5"}, []string{"10.1.0.200", "10.1.1.5"}, nil},
			{"DENY for everybody", []string{ab + "10.0.0.0/8", "deny * READ Topic:orders from 10.1.0.0/16"}, []string{outside}, nil},
			{"DENY on a prefix of the name", []string{ab + "10.0.0.0/8", "deny alice READ Topic:or* from 10.1.0.0/24"}, []string{"10.1.1.5", outside}, nil},
			{"DENY on all topics", []string{ab + "10.0.0.0/8", "deny alice ALL Topic:* from 10.1.0.0/24"}, []string{"10.1.1.5", outside}, nil},
			{"DENY on another topic", []string{ab + "10.0.0.0/8", "deny alice READ Topic:payments from 10.0.0.0/8"}, v4.addresses, nil},
			{"DENY of another operation", []string{ab + "10.0.0.0/8", "deny alice DESCRIBE Topic:orders from 10.0.0.0/8"}, v4.addresses, nil},
			{"DENY for somebody else", []string{ab + "10.0.0.0/8", "deny bob READ Topic:orders from 10.0.0.0/8"}, v4.addresses, nil},
			{"DENY of the other family", []string{ab + "10.1.0.0/24", "deny alice READ Topic:orders from ::/0"}, []string{a, "10.1.0.200"}, nil},
			{"overlapping ALLOWs", []string{ab + "10.1.0.0/25", ab + "10.1.0.128/25", ab + "10.1.0.0/24", ab + "10.200.0.1"}, []string{a, "10.1.0.200", outside}, nil},
		} {
			for _, order := range []string{"", ", created in the other order"} {
				rules := slices.Clone(test.rules)
				if order != "" {
					slices.Reverse(rules)
				}
				for _, rule := range rules { // one request each, so that the order is the broker's
					s.Grant(ctx, rule)
				}
				d.check(ctx, test.name+order, v4, read("orders"), test.want4...)
				d.check(ctx, test.name+order, v6, read("orders"), test.want6...)
				s.RevokeAll(ctx)
			}
		}
		d.check(ctx, "no rule at all", v4, read("orders"))
		asked(len(d.rows), "one a group of connections, which stay open")
	}, SpecTimeout(stage.Within(time.Minute)))

	It("the same holds for producing, consuming, describing and producer ids", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4))
		s.CreateTopic(ctx, "orders", 1)
		s.Grant(ctx,
			"allow alice ALL Topic:orders from 10.1.0.0/16", "deny alice ALL Topic:orders from 10.1.7.0/24",
			"allow alice ALL Group:g from 10.1.0.0/16", "deny alice ALL Group:g from 10.1.7.0/24",
			"allow alice ALL TransactionalId:t from 10.1.0.0/16", "deny alice ALL TransactionalId:t from 10.1.7.0/24",
		)
		p := from(ctx, s, net4, "alice", "10.1.6.255", "10.1.7.0", "10.1.7.255", "10.1.8.0")
		may := []string{"10.1.6.255", "10.1.8.0"}
		var d decisions
		defer d.attach()
		d.check(ctx, "Produce", p, write("orders"), may...)
		d.check(ctx, "Fetch", p, read("orders"), may...)
		d.check(ctx, "Metadata", p, describe("orders"), may...)
		d.check(ctx, "JoinGroup", p, join("g"), may...)
		d.check(ctx, "DescribeGroups", p, describeGroup("g"), may...)
		d.check(ctx, "InitProducerId", p, idempotent(), may...)
		d.check(ctx, "InitProducerId of a transactional id", p, transactional("t"), may...)
	}, SpecTimeout(stage.Within(time.Minute)))
})
