package listing

import (
	"math"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A row of the list", Label("listing"), stage.Needs(stage.Listing), func() {
	It("goes when its connection has been idle for connections.max.idle.ms, and a busy one stays", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24"), stage.Broker("connections.max.idle.ms=2000"))
		idle := s.Fleet(ctx,
			s.Group("10.1.0.0/24", "PLAINTEXT", stage.Nobody, 10),
			s.Group("10.1.0.0/24", "SSL", "alice", 10),
			s.Group("10.1.0.0/24", "SASL_SSL", "bob", 10),
		)
		busy := s.Group("10.1.0.0/24", "SSL", "bob", 10)
		busy.Behaviour, busy.Every = fleet.Metadata, 200*time.Millisecond
		working := s.Fleet(ctx, busy)
		stage.AllUp(working)
		Expect(idle.FirstError()).NotTo(HaveOccurred())
		Eventually(idle.Stats).WithContext(ctx).WithTimeout(30 * time.Second).Should(HaveField("Up", 0))
		for _, r := range idle.Records() {
			Expect(r.Outcome).To(Equal(fleet.ClosedByBroker), "%+v", r)
			Expect(r.Ended.Sub(r.Started)).To(BeNumerically(">=", 2*time.Second), "%+v", r)
		}
		Eventually(func() []string { return differences(working.Up(), s.Connections(ctx)) }).
			WithContext(ctx).WithTimeout(20 * time.Second).Should(BeEmpty())
		stage.AllUp(working)
		Expect(s.Closed(ctx)).To(HaveKeyWithValue("idle", BeNumerically(">=", 30)))
	}, SpecTimeout(2*time.Minute))

	It("goes by idle expiry when its client vanished without a packet", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24", "fd00:1::/64"), stage.Broker("connections.max.idle.ms=3000"))
		f := s.Fleet(ctx,
			s.Group("10.1.0.0/24", "PLAINTEXT", stage.Nobody, 10),
			s.Group("fd00:1::/64", "SSL", "alice", 10),
		)
		stage.AllUp(f)
		clients := f.Up()
		n, err := f.CloseWhere(nil, fleet.Vanish)
		Expect(err).NotTo(HaveOccurred())
		Expect(n).To(Equal(20))
		Expect(differences(clients, s.Connections(ctx))).To(BeEmpty(), "nobody can know yet that they are gone")
		Eventually(s.Connections).WithContext(ctx).WithTimeout(30 * time.Second).Should(BeEmpty())
		Expect(s.Reconcile(ctx)).To(stage.BeExplained())
		// What the broker had sent last may be unacknowledged: the client's machine, which lives, then answers the
		// retransmission with a reset.
		closed := s.Closed(ctx)
		Expect(closed["idle"]+closed["client_reset"]).To(BeNumerically(">=", 20), "%v", closed)
		Expect(closed["idle"]).To(BeNumerically(">", 0), "%v", closed)
	}, SpecTimeout(2*time.Minute))

	It("stays with its age when the whole network of its client is cut off, until idle expiry", func(ctx SpecContext) {
		s := stage.New(ctx, stage.Subnet("10.1.0.0/24", "10.2.0.0/24"),
			stage.Broker("connections.max.idle.ms=6000", "socket.listen.backlog.size=4096"))
		count := stage.Scale(2000)
		lost := s.Fleet(ctx, s.Group("10.1.0.0/24", "PLAINTEXT", stage.Nobody, count))
		stage.AllUp(lost)
		group := s.Group("10.2.0.0/24", "SSL", "alice", 5)
		group.Behaviour, group.Every = fleet.Metadata, time.Second
		others := s.Fleet(ctx, group)
		clients := lost.Up()
		s.CutOff(ctx, "10.1.0.0/24")
		Expect(differences(append(clients, others.Up()...), s.Connections(ctx))).To(BeEmpty())
		cut := time.Now()
		Eventually(func() int64 {
			youngest := int64(math.MaxInt64)
			for _, row := range s.Describe(ctx, admin.DescribeFilter{Address: new("10.1.0.0/24")}) {
				youngest = min(youngest, row.IdleMillis)
			}
			return youngest
		}).WithContext(ctx).WithTimeout(30*time.Second).Should(BeNumerically(">", 1000), "each is shown with its age")
		Eventually(func() []string { return differences(others.Up(), s.Connections(ctx)) }).
			WithContext(ctx).WithTimeout(60 * time.Second).Should(BeEmpty())
		Expect(time.Since(cut)).To(BeNumerically(">", time.Second))
		stage.AllUp(others)
		Expect(s.Reconcile(ctx)).To(stage.BeExplained())
		if s.KernelExact(ctx) {
			By("brokerlab kernel reconcile, which has a name for what the broker has closed and nobody acknowledges")
			Expect(s.Command(ctx, "kernel", "reconcile", "--bootstrap-server", "broker:9092")).To(ContainSubstring("CLOSING"))
		}
		Expect(s.Closed(ctx)).To(HaveKeyWithValue("idle", BeNumerically(">=", count)))
	}, SpecTimeout(3*time.Minute))
})
