package acl

import (
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A rule for a CIDR range", Label("acl"), stage.Needs(stage.Ranges), func() {
	It("holds for each of the 256 addresses of an IPv4 /24 and of an IPv6 /120, and for none beside them", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4, net6))
		s.CreateTopic(ctx, "orders", 1)
		s.Grant(ctx, "allow alice READ Topic:orders from 10.1.7.0/24", "allow alice READ Topic:orders from fd00:1::700/120")

		inside4 := everyOf(ctx, s, net4, "10.1.7.0/24", "alice", 256)
		inside6 := everyOf(ctx, s, net6, "fd00:1::700/120", "alice", 256)
		beside4 := from(ctx, s, net4, "alice", "10.1.6.254", "10.1.6.255", "10.1.8.0", "10.1.8.1", "10.1.0.7", "10.1.135.0")
		beside6 := from(ctx, s, net6, "alice", "fd00:1::6fe", "fd00:1::6ff", "fd00:1::800", "fd00:1::801", "fd00:1::7", "fd00:1:0:0:1::700")
		others := everyOf(ctx, s, net4, "10.1.7.0/24", "bob", 256)

		Expect(slices.Equal(inside4.addresses, numbered("10.1.7.", "%d", 0, 255))).To(BeTrue())
		Expect(slices.Equal(inside6.addresses, numbered("fd00:1::", "%x", 0x700, 0x7ff))).To(BeTrue())
		Expect(inside4.allowed(ctx, read("orders"))).To(Equal(inside4.addresses))
		Expect(inside6.allowed(ctx, read("orders"))).To(Equal(inside6.addresses))
		Expect(beside4.allowed(ctx, read("orders"))).To(BeEmpty())
		Expect(beside6.allowed(ctx, read("orders"))).To(BeEmpty())
		Expect(others.allowed(ctx, read("orders"))).To(BeEmpty(), "the range is alice's alone")
		Expect(inside4.allowed(ctx, write("orders"))).To(BeEmpty(), "and to read")
		asked(256*4+12, "one connection each")
	}, SpecTimeout(stage.Within(time.Minute)))

	It("holds at every length, with host bits set and however it is spelled, and never across families", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4, "200.1.0.0/16", net6, "2001:db8::/32"))
		s.CreateTopic(ctx, "orders", 1)
		near := from(ctx, s, net4, "alice", "10.1.7.0", "10.1.7.3", "10.1.7.4", "10.1.7.5", "10.1.7.6", "10.1.7.255", "10.1.8.0")
		far := from(ctx, s, "200.1.0.0/16", "alice", "200.1.1.1")
		near6 := from(ctx, s, net6, "alice", "fd00:1::3", "fd00:1::4", "fd00:1::5", "fd00:1::6", "fd00:1::ff", "fd00:1::100")
		far6 := from(ctx, s, "2001:db8::/32", "alice", "2001:db8::5", "2001:db8:0:0:1::5", "2001:db8:0:1::5")
		every4, every6 := append(slices.Clone(near.addresses), far.addresses...), append(slices.Clone(near6.addresses), far6.addresses...)
		within := everyOfNear()
		var d decisions
		defer d.attach()
		for _, test := range []struct {
			host string
			want []string
		}{
			{"10.1.7.5/32", []string{"10.1.7.5"}},
			{"10.1.7.5/31", []string{"10.1.7.4", "10.1.7.5"}},
			{"10.1.7.4/30", []string{"10.1.7.4", "10.1.7.5", "10.1.7.6"}},
			{"10.1.7.5/24", within},
			{"010.001.007.005/24", within},
			{"10.1.7.0/023", nil}, // no such notation: three digits
			{"10.1.7.9/8", near.addresses},
			{"10.0.0.0/08", near.addresses},
			{"128.0.0.0/1", far.addresses},
			{"0.0.0.0/1", near.addresses},
			{"0.0.0.0/0", every4},
			{"255.255.255.255/00", every4},
			{"fd00:1::5/128", []string{"fd00:1::5"}},
			{"FD00:0001::5/127", []string{"fd00:1::4", "fd00:1::5"}},
			{"fd00:1::/120", []string{"fd00:1::3", "fd00:1::4", "fd00:1::5", "fd00:1::6", "fd00:1::ff"}},
			{"[fd00:1::9]/064", near6.addresses},
			{"2001:db8::5/64", []string{"2001:db8::5", "2001:db8::1:0:0:5"}},
			{"2001:db8::/32", far6.addresses},
			{"::/0", every6},
			{"::10.1.7.0/120", nil}, // an IPv6 range, of other addresses
			{"::/96", nil},
		} {
			rule := stage.Rule("allow alice READ Topic:orders from " + test.host)
			refusal := s.Create(ctx, rule)[0]
			if test.host == "10.1.7.0/023" {
				Expect(refusal).To(Equal(stage.Refusal{Code: invalidRequest, Text: "Invalid CIDR notation '10.1.7.0/023': Could not parse [10.1.7.0/023]"}))
				continue
			}
			Expect(refusal).To(Equal(stage.Refusal{}), test.host)
			for _, p := range []*people{near, far, near6, far6} {
				d.check(ctx, test.host, p, read("orders"), intersect(p.addresses, test.want)...)
			}
			s.Revoke(ctx, "allow alice READ Topic:orders from "+test.host)
		}
		asked(len(d.rows), "one a group of connections, which stay open")
	}, SpecTimeout(stage.Within(time.Minute)))

	It("holds on a socket for both families as on one for each: IPv4 clients are IPv4", Label("kafka"), func(ctx SpecContext) {
		s := stage.New(ctx, stage.Authorizer(), stage.Subnet(net4, net6),
			stage.Listeners("PLAINTEXT://:9092", "BOTH://[::]:9094", "FOUR://0.0.0.0:9095"),
			stage.Broker("listener.security.protocol.map=PLAINTEXT:PLAINTEXT,BOTH:SASL_PLAINTEXT,FOUR:SASL_PLAINTEXT"))
		s.CreateTopic(ctx, "orders", 1)
		s.Grant(ctx, "allow alice READ Topic:orders from 10.1.7.0/24", "allow alice WRITE Topic:orders from ::/0")
		for _, listener := range []string{"BOTH", "FOUR"} {
			g := s.Group(net4, listener, "alice", 2)
			g.Source, g.From = s.Network(net4).These("10.1.7.1", "10.1.8.1"), nil
			v4 := connect(ctx, s, g)
			Expect(v4.allowed(ctx, read("orders"))).To(Equal([]string{"10.1.7.1"}), listener)
			Expect(v4.allowed(ctx, write("orders"))).To(BeEmpty(), "%s: ::/0 is IPv6 only", listener)
		}
		g := s.Group(net6, "BOTH", "alice", 1)
		v6 := connect(ctx, s, g)
		Expect(v6.allowed(ctx, read("orders"))).To(BeEmpty())
		Expect(v6.allowed(ctx, write("orders"))).To(HaveLen(1))
		for _, row := range s.Connections(ctx) {
			Expect(row.ClientAddress).NotTo(ContainSubstring("ffff"), "a mapped address is printed as IPv4")
		}
	}, SpecTimeout(stage.Within(time.Minute)))
})

// everyOfNear are the addresses of 10.1.7.0/24 among those that are asked from.
func everyOfNear() []string {
	return []string{"10.1.7.0", "10.1.7.3", "10.1.7.4", "10.1.7.5", "10.1.7.6", "10.1.7.255"}
}

// intersect gives what is in both, in the order of all.
func intersect(all, some []string) []string {
	var both []string
	for _, a := range all {
		if slices.Contains(some, a) {
			both = append(both, a)
		}
	}
	return both
}
