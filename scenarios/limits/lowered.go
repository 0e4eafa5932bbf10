package limits

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

var _ = Describe("A limit that is lowered", Label("limits"), func() {
	It("closes the TLS clients that were active least recently, no plaintext one, and lets the next in when it is raised", stage.Needs(stage.MaxSSL), func(ctx SpecContext) {
		g := newGround(ctx, "num.network.threads=1") // least recently of each thread, in Kafka as here
		plaintext := g.in(ctx, g.Group(clientNet, plain, "", 5), g.Group(clientNet, saslPlain, "bob", 5))
		tls := g.in(ctx, g.Group(clientNet, ssl, "alice", 3))
		for _, id := range []int{2, 0, 1} {
			_, err := tls.Call(ctx, id, metadata())
			Expect(err).NotTo(HaveOccurred())
		}
		g.Set(ctx, "max.ssl.connections=1")
		admitted(ctx, tls, 1)
		Expect(tls.Up()[0].ID).To(Equal(1), "the last one that asked stays")
		Eventually(g.Closed).WithContext(ctx).WithTimeout(patience).Should(HaveKeyWithValue("evicted_max_ssl_connections", 2))
		stage.AllUp(plaintext)
		w := g.watch(ctx, 1, ssl, saslSSL)
		next := g.waiter(ctx, otherNet, ssl, "bob")
		g.held(ctx, ssl)
		unanswered(next)
		g.counts(ctx, counts{11, 1})
		w.end(ctx, "")

		By("raised")
		g.Set(ctx, "max.ssl.connections=10")
		admitted(ctx, next, 1)
		g.counts(ctx, counts{12, 2})
		stage.AllUp(plaintext)
		for _, f := range []*fleet.Fleet{plaintext, tls, next} {
			leave(f, 0, fleet.FIN)
		}
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(2*time.Minute)))

	It("evicts down to it if it is the broker's, and nobody if it is a listener's", func(ctx SpecContext) {
		g := newGround(ctx, "listener.name.internal.max.connections=1000")
		f := g.in(ctx, g.Group(clientNet, plain, "", 40), g.Group(clientNet, ssl, "alice", 60))

		By("the listener's")
		g.Set(ctx, "listener.name.ssl.max.connections=20")
		next := g.waiter(ctx, otherNet, ssl, "bob")
		g.held(ctx, ssl)
		unanswered(next)
		stage.AllUp(f)
		g.counts(ctx, counts{100, 60})
		g.Unset(ctx, "listener.name.ssl.max.connections")
		admitted(ctx, next, 1)
		leave(next, 0, fleet.FIN)
		g.counts(ctx, counts{100, 60})

		By("the broker's")
		own := int(g.own(ctx))
		g.Set(ctx, "max.connections=50")
		Eventually(f.UpCount).WithContext(ctx).WithTimeout(patience).Should(BeNumerically("<=", 50-own))
		g.counts(ctx, counts{f.UpCount(), tlsOf(f.Up())})
		// Threads of several listeners can each close one for the last that is too many, in Kafka as here.
		Expect(f.UpCount()).To(BeNumerically(">", 50-own-4*3), "no more are evicted than there are threads")
		g.closed(ctx, "evicted_max_connections", 100-f.UpCount())
		leave(f, 0, fleet.FIN)
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(2*time.Minute)))
})

var _ = Describe("max.connections that is lowered", Label("limits"), func() {
	It("closes the clients that were active least recently, one after another, until there are as many as it says", Label("kafka"), func(ctx SpecContext) {
		g := newGround(ctx, "num.network.threads=1", "listener.name.internal.max.connections=1000") // least recently of each thread
		f := g.in(ctx, g.Group(clientNet, plain, "", 6))
		for _, id := range []int{4, 0, 3, 5, 2, 1} {
			_, err := f.Call(ctx, id, metadata())
			Expect(err).NotTo(HaveOccurred())
		}
		own := int(g.own(ctx))
		for _, step := range []struct {
			limit int
			stay  []int
		}{{4, []int{3, 5, 2, 1}}, {2, []int{2, 1}}} {
			g.Set(ctx, "max.connections="+text(step.limit+own))
			admitted(ctx, f, step.limit)
			Expect(ids(f)).To(ConsistOf(step.stay), "with %d", step.limit)
		}
		g.closed(ctx, "evicted_max_connections", 4)
		g.Unset(ctx, "max.connections")
		leave(f, 0, fleet.FIN)
		g.atRest(ctx)
	}, SpecTimeout(stage.Within(time.Minute)))
})

// ids are the numbers of the clients that are up.
func ids(f *fleet.Fleet) []int {
	var all []int
	records := f.Up()
	for i := range records {
		all = append(all, records[i].ID)
	}
	return all
}

// metadata is a request that changes nothing.
func metadata() kmsg.Request {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.Topics = 7, []kmsg.MetadataRequestTopic{}
	return req
}

// tlsOf counts those that speak TLS.
func tlsOf(records []fleet.Record) int {
	n := 0
	for i := range records {
		if records[i].Protocol.TLS() {
			n++
		}
	}
	return n
}
