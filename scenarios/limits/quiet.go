package limits

import (
	"context"
	"net"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("Clients that say nothing", Label("limits"), func() {
	It("hold their slots until they idle out, and those that half-close give them back at once", func(ctx SpecContext) {
		g := newGround(ctx, tlsLimit()+"=30", "connections.max.idle.ms=3000")
		w := g.watch(ctx, 30, tlsListeners()...)

		By("silent ones, and ones that stop in the middle of a ClientHello")
		silent, half := g.Group(clientNet, ssl, "", 15), g.Group(clientNet, otherTLS(), "alice", 15)
		silent.Behaviour, half.Behaviour = fleet.Silent, fleet.HalfHello
		quiet := g.in(ctx, silent, half)
		g.counts(ctx, counts{30, 30})
		next := g.come(ctx, fleet.Plan{Groups: []fleet.Group{g.Group(otherNet, ssl, "bob", 20)}})
		g.held(ctx, ssl)
		unanswered(next)
		admitted(ctx, next, 20)
		Expect(quiet.UpCount()).To(BeNumerically("<=", 10))
		Eventually(quiet.UpCount).WithContext(ctx).WithTimeout(patience).Should(BeZero())
		g.closed(ctx, "idle", BeNumerically(">=", 30))
		leave(next, 0, fleet.FIN)
		g.atRest(ctx)

		By("half-closed ones")
		var open []net.Conn
		for i := range 30 {
			c := g.dial(ctx, ssl, i)
			Expect(c.(*net.TCPConn).CloseWrite()).To(Succeed()) //nolint:forcetypeassert // it was dialled by TCP
			open = append(open, c)
		}
		for _, c := range open {
			Expect(c.SetReadDeadline(time.Now().Add(patience))).To(Succeed())
			_, err := c.Read(make([]byte, 1))
			Expect(err).To(HaveOccurred(), "the broker ends it too")
			Expect(c.Close()).To(Succeed())
		}
		w.end(ctx, "")
		g.atRest(ctx)
		g.fits(ctx, g.Group(otherNet, ssl, "alice", 30))
	}, SpecTimeout(stage.Within(2*time.Minute)))
})

// dial connects the i-th client of the clients' network to a listener; what it says is up to the spec.
func (g *ground) dial(ctx context.Context, listener string, i int) net.Conn {
	GinkgoHelper()
	n := g.Network(clientNet)
	port := g.Group(clientNet, listener, "alice", 1).Target.Port()
	c, err := n.Dialer(n.Addr(i))(ctx, "tcp", net.JoinHostPort("broker", strconv.Itoa(int(port))))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = c.Close() }) // the spec may have closed it
	return c
}
