package listing

import (
	"context"
	"fmt"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// subnets are four IPv4 and four IPv6 networks.
func subnets() []string {
	return []string{
		"10.1.0.0/24", "10.2.0.0/24", "10.3.0.0/16", "192.168.77.0/28",
		"fd00:1::/64", "fd00:2::/64", "fd00:3::/96", "2001:db8:4::/48",
	}
}

// mix is clients in proportion 2 : 1 of TLS to the other protocols, a third each, evenly from all subnets.
func mix(ctx context.Context, s *stage.Stage, total int) []fleet.Group {
	s.Scram(ctx, "carol", fleet.ScramSHA256)
	s.Scram(ctx, "dave", fleet.ScramSHA512)
	var groups []fleet.Group
	add := func(prefix, listener, user, mechanism string, share int) {
		g := s.Group(prefix, listener, user, share)
		g.Mechanism = mechanism
		g.ClientID = "client-of-" + user
		g.Software, g.SoftwareVersion = fmt.Sprintf("suite-%s", g.Protocol[:3]), "1."+strconv.Itoa(len(groups))
		groups = append(groups, g)
	}
	each := total / len(subnets()) / 12
	for i, prefix := range subnets() {
		rest := total/len(subnets()) - 12*each
		add(prefix, "SSL", "alice", "", 2*each+rest)
		add(prefix, "SSL", "bob", "", 2*each)
		add(prefix, "SSL", stage.Nobody, "", each)
		add(prefix, "SASL_SSL", []string{"alice", "bob"}[i%2], fleet.Plain, 2*each)
		add(prefix, "SASL_SSL", "carol", fleet.ScramSHA256, each)
		add(prefix, "SASL_PLAINTEXT", "bob", fleet.Plain, each)
		add(prefix, "SASL_PLAINTEXT", "dave", fleet.ScramSHA512, each)
		add(prefix, "PLAINTEXT", stage.Nobody, "", 2*each)
	}
	return groups
}

var _ = Describe("The list of connections", Label("listing"), stage.Needs(stage.Listing), func() {
	It("is what 3,000 clients of all protocols know of themselves, and what the kernel counts", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet(subnets()...), stage.Broker("socket.listen.backlog.size=4096"))
		f := s.Fleet(ctx, mix(ctx, s, stage.Scale(3000))...)
		stage.AllUp(f)
		clients := f.Up()
		report.Attach(report.Figure{Name: "clients", Value: float64(len(clients))})
		report.Attach(report.Figure{Name: "of them over TLS", Value: float64(len(where(clients, func(r *fleet.Record) bool {
			return r.Protocol.TLS()
		})))})

		begin := time.Now()
		rows := s.Connections(ctx)
		report.Attach(report.Figure{Name: "listed in", Value: float64(time.Since(begin).Milliseconds()), Unit: "ms"})
		Expect(differences(clients, rows)).To(BeEmpty())
		if !s.KernelExact(ctx) {
			return // the kernel has nothing to be compared with, and the report says so
		}
		Expect(s.KernelByClient(ctx)).To(Equal(stage.CountByClient(clients)), "connections by client address, kernel against clients")
		Expect(s.Reconcile(ctx)).To(stage.BeExplained())
		for _, port := range s.Kernel(ctx).Ports {
			of := where(clients, func(r *fleet.Record) bool { return r.Listener == port.ListenerName })
			if len(of) == 0 {
				continue
			}
			got, want := port.Gauge.Plaintext, port.Gauge.TLS
			if of[0].Protocol.TLS() {
				got, want = port.Gauge.TLS, port.Gauge.Plaintext
			}
			Expect(got-s.Own(ctx, port.ListenerName)).To(BeEquivalentTo(len(of)), "connections of %s by their first bytes", port.ListenerName)
			Expect(want).To(BeZero(), "connections of %s that speak the wrong protocol", port.ListenerName)
		}
	}, SpecTimeout(3*time.Minute))
})
