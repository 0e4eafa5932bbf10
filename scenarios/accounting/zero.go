package accounting

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("Every gauge of the kernel's count", Label("accounting"), func() {
	It("returns to zero, however clients leave, and what was opened has been closed", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24", "fd00:1::/64"), stage.Broker("connections.max.idle.ms=3000", "socket.listen.backlog.size=4096"))
		s.NeedKernel(ctx)
		users := map[string]string{"PLAINTEXT": stage.Nobody, "SSL": "alice", "SASL_PLAINTEXT": "bob", "SASL_SSL": "alice"}
		var groups []fleet.Group
		for listener, user := range users {
			for _, prefix := range []string{"10.1.0.0/24", "fd00:1::/64"} {
				groups = append(groups, s.Group(prefix, listener, user, stage.Scale(30)))
				half := s.Group(prefix, listener, user, 4)
				half.Behaviour = fleet.Silent
				hello := half
				hello.Behaviour = fleet.HalfHello
				groups = append(groups, half, hello)
			}
		}
		f := s.Fleet(ctx, groups...)
		connected := f.Stats().Connected
		for i, how := range []fleet.How{fleet.FIN, fleet.RST} {
			_, err := f.CloseWhere(func(r fleet.Record) bool { return r.ID%4 == i }, how)
			Expect(err).NotTo(HaveOccurred())
		}
		// The rest idles out, which is the broker's close.
		Eventually(f.UpCount).WithContext(ctx).WithTimeout(40 * time.Second).Should(BeZero())
		for listener := range users {
			own := s.Own(ctx, listener)
			Eventually(func() protocol.DescribeKernelResponseGauge {
				g := s.Port(ctx, listener).Gauge
				return protocol.DescribeKernelResponseGauge{
					Established: g.Established, TLS: g.TLS, Plaintext: g.Plaintext, Undecided: g.Undecided, Unknown: g.Unknown, Served: g.Served, ServedTLS: g.ServedTLS,
				}
			}).WithContext(ctx).WithTimeout(40*time.Second).Should(Equal(protocol.DescribeKernelResponseGauge{
				Established: own, Plaintext: own, Served: own,
			}), listener)
		}
		k := s.Kernel(ctx)
		own := k.Group.Established
		Expect(k.Group.Opened - k.Group.Closed).To(BeEquivalentTo(own))
		Expect(k.Group.Closed).To(BeNumerically(">=", connected))
		Expect(s.KernelByClient(ctx)).To(BeEmpty())
		Expect(k.Lost).To(BeEmpty())
	}, SpecTimeout(stage.Within(3*time.Minute)))
})
