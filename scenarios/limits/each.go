package limits

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("Each limit", Label("limits"), func() {
	It("that is set to N lets N in and not one more", func(ctx SpecContext) {
		const n = 7
		g := newGround(ctx, "listener.name.internal.max.connections=1000", "listener.name.internal.max.connection.creation.rate=1000", "quota.window.num=2")
		one := func(addr, listener, user string, count int) fleet.Group {
			group := g.Group(clientNet, listener, user, count)
			group.Source = g.Network(clientNet).At(addr)
			return group
		}
		for _, limit := range []struct {
			key, listener, user string
			value               string
			closes              bool // who is too many is turned away, instead of waiting
		}{
			{key: "max.connections", listener: saslPlain, user: "alice", value: text(n + int(g.own(ctx)))},
			{key: "listener.name.plaintext.max.connections", listener: plain, value: text(n)},
			{key: "listener.name.sasl_ssl.max.connections", listener: saslSSL, user: "alice", value: text(n)},
			{key: "max.ssl.connections", listener: ssl, user: "bob", value: text(n)},
			{key: "max.connections.per.ip", listener: plain, value: text(n), closes: true},
			{key: "max.connections.per.ip.overrides", listener: ssl, user: "alice", value: "10.1.0.10:7", closes: true},
		} {
			if limit.key == "max.ssl.connections" && !stage.Has(stage.MaxSSL) {
				continue
			}
			By(limit.key)
			g.Set(ctx, limit.key+"="+limit.value)
			g.effective(ctx, limit.key, limit.value)
			inside := g.in(ctx, one("10.1.0.10", limit.listener, limit.user, n))
			next := g.come(ctx, fleet.Plan{Groups: []fleet.Group{one("10.1.0.10", limit.listener, limit.user, 1)}})
			if limit.closes {
				Eventually(next.FirstError).WithContext(ctx).WithTimeout(patience).Should(HaveOccurred())
			} else {
				g.held(ctx, limit.listener)
				unanswered(next)
			}
			Expect(g.counted(ctx).total).To(Equal(n))
			leave(inside, 1, fleet.FIN)
			if limit.closes {
				g.counts(ctx, counts{n - 1, tlsOf(inside.Up())})
				next = g.in(ctx, one("10.1.0.10", limit.listener, limit.user, 1))
			} else {
				admitted(ctx, next, 1)
			}
			leave(inside, 0, fleet.FIN)
			leave(next, 0, fleet.FIN)
			g.Unset(ctx, limit.key)
			g.counts(ctx, counts{})
		}

		By("rates, by the waiting that they cause")
		for key, listener := range map[string]string{
			"max.connection.creation.rate":                        saslPlain,
			"listener.name.sasl_ssl.max.connection.creation.rate": saslSSL,
		} {
			g.Set(ctx, key+"=1")
			g.effective(ctx, key, "1")
			blocked := 0.0
			if stage.Has(stage.Metrics) {
				blocked = g.blocked(ctx, listener)
			}
			f := g.Fleet(ctx, g.Group(otherNet, listener, "alice", 4)) // two windows, and more
			Expect(f.FirstError()).NotTo(HaveOccurred())
			g.wasBlocked(ctx, listener, BeNumerically(">", blocked), key)
			g.Unset(ctx, key)
			leave(f, 0, fleet.FIN)
		}
		g.rate(ctx, "10.1.0.11", 1)
		f := g.Fleet(ctx, one("10.1.0.11", plain, "", 4))
		Expect(f.FirstError()).To(HaveOccurred())
		g.closed(ctx, "per_ip_rate", BeNumerically(">", 0))
		leave(f, 0, fleet.FIN)
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(2*time.Minute)))
})

// effective waits until the broker acts by a limit that was altered: it is told a moment after the alteration is stored. Where it cannot
// be asked, the stage has waited already.
func (g *ground) effective(ctx context.Context, key, value string) {
	GinkgoHelper()
	if stage.Target().IsKafka() {
		return
	}
	Eventually(func() []string { return g.limits(ctx) }).WithContext(ctx).WithTimeout(patience).Should(ContainElement(key + "=" + value))
}

// limits is every limit that the broker acts by, as it would be configured.
func (g *ground) limits(ctx context.Context) []string {
	GinkgoHelper()
	req := protocol.NewPtrDescribeLimitsRequest()
	req.AddressLimit = 1000
	resp, ok := g.Ask(ctx, req).(*protocol.DescribeLimitsResponse)
	Expect(ok).To(BeTrue())
	Expect(resp.ErrorCode).To(BeZero(), "%v", resp.ErrorMessage)
	var all []string
	for i := range resp.Limits {
		l := &resp.Limits[i]
		prefix := ""
		if l.ListenerName != "" {
			prefix = "listener.name." + strings.ToLower(l.ListenerName) + "."
		}
		all = append(all, fmt.Sprintf("%s%s=%d", prefix, l.Name, l.Value))
	}
	for i := range resp.Addresses {
		a := &resp.Addresses[i]
		all = append(all, fmt.Sprintf("max.connections.per.ip.overrides=%s:%d", a.Address, a.Max), fmt.Sprintf("connection_creation_rate=%s:%d", a.Address, a.Rate))
	}
	return all
}
