package listing

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("The listener filter", Label("listing"), stage.Needs(stage.Listing), func() {
	It("finds the 3 stragglers on the listener that is to be retired among 1,000 clients", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24", "10.2.0.0/24", "fd00:1::/64"),
			stage.Broker("socket.listen.backlog.size=4096"))
		f := s.Fleet(ctx,
			s.Group("10.1.0.0/24", "SSL", "alice", stage.Scale(500)),
			s.Group("fd00:1::/64", "SASL_SSL", "bob", stage.Scale(497)),
			s.Group("10.2.0.0/24", "SASL_PLAINTEXT", "alice", 2),
			s.Group("fd00:1::/64", "SASL_PLAINTEXT", "bob", 1),
		)
		stage.AllUp(f)
		retired := "SASL_PLAINTEXT"
		rows := s.ListWhere(ctx, admin.ListFilter{Listener: &retired})
		Expect(differences(where(f.Up(), func(r *fleet.Record) bool { return r.Listener == retired }), rows)).To(BeEmpty())
		principals := make([]string, len(rows))
		for i := range rows {
			principals[i] = rows[i].Principal
		}
		Expect(principals).To(ConsistOf("User:alice", "User:alice", "User:bob"))
	}, SpecTimeout(2*time.Minute))
})
