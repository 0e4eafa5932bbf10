package listing

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// spellings are ways to write addr that mean the same.
func spellings(addr netip.Addr) []string {
	if addr.Is4() {
		return []string{addr.String(), "::ffff:" + addr.String(), netip.AddrFrom16(addr.As16()).StringExpanded()}
	}
	groups := strings.Split(addr.StringExpanded(), ":")
	for i := range groups {
		groups[i] = strings.TrimLeft(groups[i][:3], "0") + groups[i][3:]
	}
	java := strings.Join(groups, ":")
	return []string{addr.String(), addr.StringExpanded(), java, strings.ToUpper(java)}
}

var _ = Describe("The list of connections", Label("listing"), stage.Needs(stage.Listing), func() {
	It("is cut by principal, address in any spelling, and listener, alone and together", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24", "fd00:1::/64"))
		all := s.Fleet(ctx,
			s.Group("10.1.0.0/24", "PLAINTEXT", stage.Nobody, 5),
			s.Group("10.1.0.0/24", "SSL", "alice", 5),
			s.Group("10.1.0.0/24", "SASL_SSL", "bob", 5),
			s.Group("fd00:1::/64", "SSL", "bob", 5),
			s.Group("fd00:1::/64", "SASL_PLAINTEXT", "alice", 5),
		)
		stage.AllUp(all)
		clients := all.Up()

		list := func(f admin.ListFilter, match func(*fleet.Record) bool) {
			GinkgoHelper()
			Expect(ports(s.ListWhere(ctx, f))).To(Equal(locals(where(clients, match))))
		}
		none := func(*fleet.Record) bool { return false }

		By("principal")
		for _, p := range []string{"User:alice", "User:bob", stage.Anonymous} {
			list(admin.ListFilter{Principal: &p}, func(r *fleet.Record) bool { return r.Principal == p })
		}
		for _, p := range []string{"alice", "User:Alice", "user:alice", "User:", "User:*", "", "User:alice "} {
			list(admin.ListFilter{Principal: &p}, none)
		}

		By("address")
		for i := range clients {
			addr := clients[i].Local.Addr()
			for _, text := range spellings(addr) {
				list(admin.ListFilter{ClientAddress: &text}, func(r *fleet.Record) bool { return r.Local.Addr() == addr })
			}
		}
		for _, text := range []string{"10.1.0.200", "10.1.0", "10.1.0.0/24", "broker", "", "::", "fd00:1::zz", "10.1.0.01"} {
			list(admin.ListFilter{ClientAddress: &text}, none)
		}

		By("listener")
		for _, l := range []string{"PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT", "sasl_ssl", "Ssl"} {
			list(admin.ListFilter{Listener: &l}, func(r *fleet.Record) bool { return strings.EqualFold(r.Listener, l) })
		}
		for _, l := range []string{"NOSUCH", "", "SSL "} {
			list(admin.ListFilter{Listener: &l}, none)
		}

		By("all of them")
		alice, ssl := "User:alice", "SSL"
		for i := range clients {
			addr := clients[i].Local.Addr().String()
			list(admin.ListFilter{Principal: &alice, ClientAddress: &addr, Listener: &ssl}, func(r *fleet.Record) bool {
				return r.Principal == alice && r.Local.Addr().String() == addr && r.Listener == ssl
			})
		}
	}, SpecTimeout(2*time.Minute))

	It("is cut by network, protocol and software in its rich form, and page by page", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24", "fd00:1::/64"))
		var groups []fleet.Group
		for i, listener := range []string{"PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT"} {
			for _, prefix := range []string{"10.1.0.0/24", "fd00:1::/64"} {
				g := s.Group(prefix, listener, []string{stage.Nobody, "alice", "bob", "alice"}[i], 6)
				g.Software, g.SoftwareVersion, g.ClientID = fmt.Sprintf("tool-%d", i%3), "2.0", "who-"+listener
				groups = append(groups, g)
			}
		}
		all := s.Fleet(ctx, groups...)
		stage.AllUp(all)
		clients := all.Up()
		describe := func(f admin.DescribeFilter, match func(*fleet.Record) bool) {
			GinkgoHelper()
			rows := s.Describe(ctx, f)
			want := where(clients, match)
			got := make([]netip.AddrPort, len(rows))
			for i := range rows {
				addr, err := netip.ParseAddr(rows[i].ClientAddress)
				Expect(err).NotTo(HaveOccurred())
				got[i] = netip.AddrPortFrom(addr, uint16(rows[i].ClientPort))
			}
			Expect(got).To(ConsistOf(locals(want)))
		}
		text := func(s string) *string { return &s }
		By("network")
		for _, cidr := range []string{"10.1.0.0/24", "10.1.0.0/30", "10.0.0.0/8", "0.0.0.0/0", "::/0", "fd00:1::/64", "fd00:1::4/126", "10.9.0.0/16"} {
			prefix := netip.MustParsePrefix(cidr)
			describe(admin.DescribeFilter{Address: text(cidr)}, func(r *fleet.Record) bool { return prefix.Contains(r.Local.Addr()) })
		}
		By("protocol")
		for _, protocol := range []string{"PLAINTEXT", "SSL", "SASL_SSL", "SASL_PLAINTEXT"} {
			describe(admin.DescribeFilter{Protocol: &protocol}, func(r *fleet.Record) bool { return string(r.Protocol) == protocol })
		}
		By("software")
		for _, software := range []string{"tool-0", "tool-1", "tool-2", "tool", ""} {
			describe(admin.DescribeFilter{Software: &software}, func(r *fleet.Record) bool { return r.Software == software })
		}
		By("page")
		for _, size := range []int32{1, 7, 1000} {
			describe(admin.DescribeFilter{PageSize: size}, func(*fleet.Record) bool { return true })
		}
		By("all that is known of each")
		exact := s.KernelExact(ctx)
		for _, row := range s.Describe(ctx, admin.DescribeFilter{Kernel: true}) {
			Expect(row.ClientID).To(HaveValue(Equal("who-" + row.ListenerName)))
			Expect(row.State).To(Equal("open"))
			Expect(row.TLS != nil).To(Equal(strings.HasSuffix(row.ListenerName, "SSL")), row.ConnectionID)
			Expect(row.SASL != nil).To(Equal(strings.HasPrefix(row.ListenerName, "SASL")), row.ConnectionID)
			if exact {
				Expect(row.Kernel).NotTo(BeNil(), row.ConnectionID)
				Expect(row.Kernel.State).To(Equal("ESTAB"))
				Expect(row.Kernel.Protocol == "tls").To(Equal(row.TLS != nil)) //nolint:ginkgolinter // both ways are expected
			}
		}
	}, SpecTimeout(2*time.Minute))
})
