package limits

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// gateway is one address behind which others hide: what connects to it is connected on to the broker, from its own address.
type gateway struct {
	network *stage.Network
	addr    netip.Addr
	target  string
	running sync.WaitGroup
}

// gateway listens at an address of a client network, on the port of a listener. It ends with the spec.
func (g *ground) gateway(ctx context.Context, prefix, addr, listener string) *gateway {
	GinkgoHelper()
	port := g.Group(prefix, listener, stage.Nobody, 1).Target.Port()
	w := &gateway{network: g.Network(prefix), addr: netip.MustParseAddr(addr), target: net.JoinHostPort("broker", strconv.Itoa(int(port)))}
	l := w.network.Listen(netip.AddrPortFrom(w.addr, port))
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	w.running.Go(func() {
		for {
			inner, err := l.Accept()
			if err != nil {
				return
			}
			w.running.Go(func() { w.join(ctx, inner) })
		}
	})
	DeferCleanup(func() {
		stop()
		Expect(l.Close()).To(Succeed())
		w.running.Wait()
	})
	return w
}

// join hands bytes on in both directions until either side ends, and then ends the other.
func (w *gateway) join(ctx context.Context, inner net.Conn) {
	defer func() { _ = inner.Close() }()
	outer, err := w.network.Dialer(w.addr)(ctx, "tcp", w.target)
	if err != nil {
		return
	}
	defer func() { _ = outer.Close() }()
	both := context.AfterFunc(ctx, func() {
		_ = inner.Close()
		_ = outer.Close()
	})
	defer both()
	var out sync.WaitGroup
	out.Go(func() {
		_, _ = io.Copy(outer, inner)
		_ = outer.Close()
	})
	_, _ = io.Copy(inner, outer)
	_ = inner.Close()
	out.Wait()
}

var _ = Describe("Clients behind one address", Label("limits"), func() {
	It("share its maximum: 100 of 150 are served, and the broker names the address that 50 were turned away from", func(ctx SpecContext) {
		const shared = "10.2.0.99"
		g := newGround(ctx, "max.connections.per.ip=100")
		w := g.watch(ctx, 110, plain, ssl)
		gate := g.gateway(ctx, otherNet, shared, ssl)
		group := g.Group(clientNet, ssl, "alice", 150)
		group.TLS.ServerName = group.Target.Addr().String() // whom they believe to talk to
		group.Target = netip.AddrPortFrom(gate.addr, group.Target.Port())
		inner := g.Fleet(ctx, group)
		others := g.in(ctx, g.Group(otherNet, ssl, "bob", 10))

		lost := map[netip.Addr]bool{}
		for _, r := range inner.Records() {
			if r.Outcome != fleet.Up {
				Expect(r.Outcome).To(Or(Equal(fleet.ClosedByBroker), Equal(fleet.Reset)), "%+v", r)
				lost[r.Local.Addr()] = true
			}
		}
		Expect(inner.UpCount()).To(Equal(100))
		Expect(lost).To(HaveLen(50), "of so many addresses behind the shared one")
		rows := map[string]int{}
		for _, row := range g.Connections(ctx) {
			rows[row.ClientAddress]++
		}
		Expect(rows).To(HaveKeyWithValue(shared, 100))
		Expect(rows).To(HaveLen(1+10), "no address behind it is known")
		turned := g.logged(`Rejected connection from (/\S+), address already has the configured maximum of 100 connections`)
		Expect(turned).To(HaveEach("/" + shared))
		g.closed(ctx, "per_ip_limit", 50)
		report.Attach(report.Table{
			Name: "Who shares an address", Columns: []string{"address", "maximum", "served", "turned away", "addresses behind it that lost"},
			Rows: [][]string{{shared, "100", "100", "50", strconv.Itoa(len(lost))}},
		})
		stage.AllUp(others)

		By("one leaves: another can come, whoever it is")
		leave(inner, 1, fleet.FIN)
		g.counts(ctx, counts{109, 109})
		again := group
		again.Count = 2
		late := g.Fleet(ctx, again)
		Expect(late.UpCount()).To(Equal(1), fmt.Sprint(late.Stats().Outcomes))
		w.end(ctx, "")
		for _, f := range []*fleet.Fleet{inner, others, late} {
			leave(f, 0, fleet.FIN)
		}
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(2*time.Minute)))
})
