package listing

import (
	"encoding/json"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// answer is what connections list --format json prints.
type answer struct {
	Connections []struct {
		NodeID int
		Port   uint16 `json:"clientPort"`
	}
	Errors []struct{ NodeID int }
}

var _ = Describe("The list of connections", Label("listing"), stage.Needs(stage.Listing, stage.Faces), func() {
	It("of three brokers has each connection at its own, as the kernel has, and the rest when one of them is down", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Brokers(3), stage.Subnet("10.1.0.0/24", "fd00:1::/64"),
			stage.Broker("broker.heartbeat.interval.ms=500", "broker.session.timeout.ms=3000"))
		fleets := make([]*fleet.Fleet, len(s.All()))
		for i, b := range s.All() {
			fleets[i] = s.Fleet(ctx,
				b.Group("10.1.0.0/24", "PLAINTEXT", stage.Nobody, 2+i), b.Group("10.1.0.0/24", "SSL", "alice", 3+i),
				b.Group("fd00:1::/64", "SASL_SSL", "bob", 4), b.Group("fd00:1::/64", "SASL_PLAINTEXT", "alice", 5-i))
			stage.AllUp(fleets[i])
		}
		for i, b := range s.All() {
			By(b.Name())
			clients := fleets[i].Up()
			Expect(differences(clients, b.Connections(ctx))).To(BeEmpty())
			if b.KernelExact(ctx) {
				Expect(b.KernelByClient(ctx)).To(Equal(stage.CountByClient(clients)), "connections by client address, kernel against clients")
			}
			Expect(b.Reconcile(ctx)).To(stage.BeExplained())
			alice, ssl := "User:alice", "SSL"
			Expect(ports(b.ListWhere(ctx, admin.ListFilter{Principal: &alice, Listener: &ssl}))).
				To(Equal(locals(where(clients, func(r *fleet.Record) bool { return r.Principal == alice && r.Listener == ssl }))))
		}

		By("one command for all of them")
		list := func(want int, args ...string) answer {
			GinkgoHelper()
			out, problems, code := s.TryCommand(ctx, append([]string{"connections", "list", "--format", "json", "--bootstrap-server", s.Bootstrap("PLAINTEXT")}, args...)...)
			Expect(code).To(Equal(want), problems)
			var a answer
			Expect(json.Unmarshal([]byte(out), &a)).To(Succeed(), out)
			return a
		}
		shows := func(a answer, node int) {
			GinkgoHelper()
			seen := map[uint16]bool{}
			for _, c := range a.Connections {
				if c.NodeID == node {
					seen[c.Port] = true
				}
			}
			for _, r := range fleets[node-1].Up() {
				Expect(seen).To(HaveKey(r.Local.Port()), "a client of broker %d", node)
			}
		}
		all := list(0)
		for node := range fleets {
			shows(all, node+1)
		}
		second := list(0, "--node", "2")
		shows(second, 2)
		for _, c := range second.Connections {
			Expect(c.NodeID).To(Equal(2))
		}

		By("one of them is down")
		Expect(s.Broker(3).Node().Kill(ctx)).To(Succeed())
		rest := list(1)
		shows(rest, 1)
		shows(rest, 2)
		Expect(rest.Errors).To(ConsistOf(HaveField("NodeID", 3)))
	}, SpecTimeout(2*time.Minute))
})
