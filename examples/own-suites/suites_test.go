// Package suites holds brokers to promises of one's own, in labs of brokerlab.
package suites

import (
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

func TestSuites(t *testing.T) { stage.RunSuite(t, "our own promises") }

var _ = Describe("Our services", Label("ours"), func() {
	It("are told apart by principal from two offices, over IPv4 and IPv6", func(ctx SpecContext) {
		s := stage.New(ctx,
			stage.Subnet("10.20.0.0/24", "fd00:20::/64"),
			stage.Broker("connections.max.idle.ms=60000"), // what you set in server.properties
		)
		billing := s.Group("10.20.0.0/24", "SSL", "alice", stage.Scale(100))
		billing.Behaviour, billing.Every = fleet.Metadata, time.Second
		audit := s.Group("fd00:20::/64", "SASL_SSL", "bob", stage.Scale(100))
		clients := s.Fleet(ctx, billing, audit)
		stage.AllUp(clients)

		found := map[string]int{}
		for _, row := range s.Connections(ctx) { // the broker's list
			found[row.Principal]++
		}
		Expect(found).To(Equal(map[string]int{"User:alice": billing.Count, "User:bob": audit.Count}))
		Expect(s.Reconcile(ctx)).To(stage.BeExplained()) // the kernel's count agrees
		report.Attach(report.Figure{Name: "clients", Value: float64(clients.Stats().Up)})
	}, SpecTimeout(time.Minute))
})
