package accounting

import (
	"net/netip"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("The kernel's list of sockets", Label("accounting"), func() {
	It("is the server's side when client and server are one machine, with ports and the client's address", func(ctx SpecContext) {
		stage.Alone()
		program := stage.Listen(ctx, "127.0.0.1:0")
		counter := stage.Attach(ctx, program)
		f := stage.NewFleet(ctx, fleet.Group{
			Count: 50, Target: program.Addr, Protocol: fleet.Plaintext, Behaviour: fleet.Raw, Payload: kafkaRequest(),
			Source: fleet.Loopback(netip.MustParsePrefix("127.5.0.0/28")),
		})
		stage.AllUp(f)
		var sockets []broker.KernelSocket
		Eventually(func() []broker.KernelSocket {
			sockets = counter.Sockets(ctx, program)
			return slices.DeleteFunc(slices.Clone(sockets), func(k broker.KernelSocket) bool { return k.BytesIn == 0 })
		}).WithContext(ctx).WithTimeout(20 * time.Second).Should(HaveLen(50))
		Expect(remotes(sockets)).To(ConsistOf(locals(f.Up())))
		for _, k := range sockets {
			Expect(k.State).To(Equal("ESTAB"))
			Expect(k.Cookie).NotTo(BeZero())
			Expect(k.BytesIn).To(BeEquivalentTo(len(kafkaRequest())))
			Expect(k.BytesOut).To(BeZero())
		}
		Expect(counter.Port(ctx, program).Established).To(BeEquivalentTo(50), "each connection once, not once an end")
	}, SpecTimeout(stage.Within(time.Minute)))

	It("has half of the clients as IPv6 and the others as IPv4, also on one dual-stack listener", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24", "fd00:1::/64"))
		s.NeedKernel(ctx)
		f := s.Fleet(ctx, s.Group("10.1.0.0/24", "SSL", "alice", 40), s.Group("fd00:1::/64", "SSL", "bob", 40))
		stage.AllUp(f)
		Expect(s.KernelByClient(ctx)).To(Equal(stage.CountByClient(f.Up())))
		if !stage.Has(stage.Listing) {
			return
		}
		ssl := "SSL"
		for _, row := range s.Describe(ctx, admin.DescribeFilter{Listener: &ssl, Kernel: true}) {
			addr, err := netip.ParseAddr(row.ClientAddress)
			Expect(err).NotTo(HaveOccurred())
			Expect(addr.Is4In6()).To(BeFalse(), "%s is an IPv4 client", row.ClientAddress)
			Expect(row.Kernel).NotTo(BeNil(), "%s has its socket", row.ConnectionID)
			Expect(row.SocketCookie).NotTo(BeZero())
			Expect(row.Kernel.BytesIn).To(BeNumerically(">", 0))
			Expect(row.Kernel.BytesOut).To(BeNumerically(">", 0))
			Expect(row.ConnectedSince).To(BeNumerically("<=", time.Now().UnixMilli()))
		}
	}, SpecTimeout(stage.Within(time.Minute)))
})

func remotes(sockets []broker.KernelSocket) []netip.AddrPort {
	all := make([]netip.AddrPort, len(sockets))
	for i := range sockets {
		all[i] = sockets[i].Remote
	}
	return all
}

func locals(clients []fleet.Record) []netip.AddrPort {
	all := make([]netip.AddrPort, len(clients))
	for i := range clients {
		all[i] = clients[i].Local
	}
	return all
}
