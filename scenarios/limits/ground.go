package limits

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// The broker's listeners. The stage asks its own questions at the first, which is the one between brokers: what limits do to clients
// must not keep them from being answered.
const (
	internal  = "INTERNAL"
	plain     = "PLAINTEXT"
	ssl       = "SSL"
	saslPlain = "SASL_PLAINTEXT"
	saslSSL   = "SASL_SSL"
)

const (
	clientNet = "10.1.0.0/16"
	otherNet  = "10.2.0.0/16"
	// patience bounds what should happen at once on a machine that is busy with other things.
	patience = 30 * time.Second
	// waiting is for how long a client of ours waits for an answer at a limit.
	waiting = time.Minute
)

// ground is a stage whose broker has limits.
type ground struct {
	*stage.Stage
	files int // of the broker, before anybody came
}

// standard is a listener of each protocol and one for brokers.
func standard() []string {
	return []string{internal + "://:9091", plain + "://:9092", ssl + "://:9093", saslPlain + "://:9094", saslSSL + "://:9095"}
}

// newGround brings up a broker with the standard listeners.
func newGround(ctx SpecContext, properties ...string) *ground {
	GinkgoHelper()
	return newGroundOf(ctx, standard(), properties...)
}

// newGroundOf brings up a broker with listeners that are named by their protocols, but for INTERNAL, which is plaintext. The first is
// the one between brokers unless a property says otherwise.
func newGroundOf(ctx SpecContext, listeners []string, properties ...string) *ground {
	GinkgoHelper()
	protocols := make([]string, len(listeners))
	for i, l := range listeners {
		name, _, _ := strings.Cut(l, "://")
		protocols[i] = name + ":" + name
		if name == internal {
			protocols[i] = internal + ":" + plain
		}
	}
	between, _, _ := strings.Cut(listeners[0], "://")
	properties = append([]string{
		"listener.security.protocol.map=" + strings.Join(protocols, ","), "inter.broker.listener.name=" + between,
	}, properties...)
	g := &ground{Stage: stage.New(ctx, stage.Listeners(listeners...), stage.Subnet(clientNet, otherNet), stage.Broker(properties...))}
	g.files = g.BrokerFiles(ctx)
	return g
}

// come opens clients in the background: those that are let wait are in the fleet's records meanwhile. Each waits as long as the plan
// says, or [waiting].
func (g *ground) come(ctx context.Context, plan fleet.Plan) *fleet.Fleet {
	GinkgoHelper()
	var coming sync.WaitGroup
	DeferCleanup(coming.Wait)
	f := g.NewFleetOf(cmp.Or(plan.Timeout, waiting))
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	DeferCleanup(stop) // first of all: those that wait give up
	if plan.Parallel == 0 {
		plan.Parallel = max(1, plan.Connections())
	}
	coming.Go(func() {
		defer GinkgoRecover()
		if err := f.Add(ctx, plan); err != nil && ctx.Err() == nil {
			Fail(fmt.Sprintf("open clients: %v", err))
		}
	})
	return f
}

// waiter is one client in the background.
func (g *ground) waiter(ctx context.Context, prefix, listener, user string) *fleet.Fleet {
	GinkgoHelper()
	return g.come(ctx, fleet.Plan{Groups: []fleet.Group{g.Group(prefix, listener, user, 1)}})
}

// in opens clients that have to be let in at once.
func (g *ground) in(ctx context.Context, groups ...fleet.Group) *fleet.Fleet {
	GinkgoHelper()
	f := g.Fleet(ctx, groups...)
	stage.AllUp(f)
	return f
}

// leave closes n clients of f in the way how; n 0: all.
func leave(f *fleet.Fleet, n int, how fleet.How) {
	GinkgoHelper()
	left := n
	closed, err := f.CloseWhere(func(fleet.Record) bool {
		left--
		return n == 0 || left >= 0
	}, how)
	Expect(err).NotTo(HaveOccurred())
	if n > 0 {
		Expect(closed).To(Equal(n))
	}
}

// held waits until the acceptor of a listener has a client in its hand, for which there is no slot.
func (g *ground) held(ctx context.Context, listener string) {
	GinkgoHelper()
	Eventually(func() int64 { return g.Port(ctx, listener).Broker.Held }).WithContext(ctx).WithTimeout(patience).
		Should(BeNumerically("==", 1), "the acceptor of %s holds a client", listener)
}

// unanswered fails the spec if a client that waits in f was answered.
func unanswered(f *fleet.Fleet) {
	GinkgoHelper()
	records := f.Records()
	for i := range records {
		r := &records[i]
		Expect(r.Outcome).To(Equal(fleet.Opening), "%+v", r)
		Expect(r.Connect).To(BeNumerically(">", 0), "TCP connects: %+v", r)
		Expect(r.TLS).To(BeZero(), "no handshake yet: %+v", r)
		Expect(r.Requests).To(BeZero(), "%+v", r)
	}
}

// admitted waits until n clients of f are up.
func admitted(ctx context.Context, f *fleet.Fleet, n int) {
	GinkgoHelper()
	Eventually(f.UpCount).WithContext(ctx).WithTimeout(patience).Should(Equal(n))
}

// counts are the broker's own gauges, or how many connections its network threads have, where it does not tell.
type counts struct{ total, ssl int }

// Series of the broker's metrics.
const (
	totalSeries   = "kafka_network_connectionquotas_connectionscount_value"
	sslSeries     = "kafka_network_connectionquotas_sslconnectionscount_value"
	blockedSeries = "kafka_network_acceptor_acceptorblockedpercent_count"
)

// counted is what ConnectionsCount and SslConnectionsCount say, less the stage's own connections.
func (g *ground) counted(ctx context.Context) counts {
	GinkgoHelper()
	if !stage.Has(stage.Metrics) {
		var n counts
		rows := g.Connections(ctx)
		for i := range rows {
			n.total++
			if strings.HasSuffix(rows[i].ListenerName, ssl) {
				n.ssl++
			}
		}
		return n
	}
	return counts{int(g.metric(ctx, totalSeries)) - int(g.own(ctx)), int(g.metric(ctx, sslSeries))}
}

// own is how many connections the stage itself has.
func (g *ground) own(ctx context.Context) int64 {
	GinkgoHelper()
	n := int64(0)
	for _, l := range g.Node().Listeners {
		n += g.Own(ctx, l.Name)
	}
	return n
}

// counts waits until the broker's gauges are these.
func (g *ground) counts(ctx context.Context, want counts) {
	GinkgoHelper()
	Eventually(g.counted).WithContext(ctx).WithTimeout(patience).Should(Equal(want))
}

// blocked is for how long the acceptor of a listener has been blocked, in ns.
func (g *ground) blocked(ctx context.Context, listener string) float64 {
	GinkgoHelper()
	return g.metric(ctx, fmt.Sprintf("%s{listener=%q}", blockedSeries, listener))
}

// wasBlocked holds the time for which the acceptor of a listener has been blocked to what it should be, where the broker tells of it.
func (g *ground) wasBlocked(ctx context.Context, listener string, want types.GomegaMatcher, what ...any) {
	GinkgoHelper()
	if stage.Has(stage.Metrics) {
		Expect(g.blocked(ctx, listener)).To(want, what...)
	}
}

// closed waits until as many connections have ended for this reason as there should, where the broker tells of it.
func (g *ground) closed(ctx context.Context, reason string, want any) {
	GinkgoHelper()
	if stage.Has(stage.Metrics) {
		Eventually(g.Closed).WithContext(ctx).WithTimeout(patience).Should(HaveKeyWithValue(reason, want))
	}
}

// tlsLimit is the key of a limit that all TLS clients of a spec share: max.ssl.connections. Where that is lacking it is the limit of the
// listener SSL, and [otherTLS] is that listener too.
func tlsLimit() string {
	if stage.Has(stage.MaxSSL) {
		return "max.ssl.connections"
	}
	return "listener.name.ssl.max.connections"
}

// otherTLS is a second listener for TLS clients under [tlsLimit].
func otherTLS() string {
	if stage.Has(stage.MaxSSL) {
		return saslSSL
	}
	return ssl
}

// tlsListeners are the listeners that [tlsLimit] is about.
func tlsListeners() []string {
	if stage.Has(stage.MaxSSL) {
		return []string{ssl, saslSSL}
	}
	return []string{ssl}
}

// metric is the value of one series, which has to be there.
func (g *ground) metric(ctx context.Context, series string) float64 {
	GinkgoHelper()
	v, ok := g.Metrics(ctx)[series]
	Expect(ok).To(BeTrue(), "the broker's metrics have no %s", series)
	return v
}

// atRest waits until nothing is left of any client: not in the list, in the broker's counts, among its files or in the kernel.
func (g *ground) atRest(ctx context.Context) {
	GinkgoHelper()
	Eventually(func() int { return len(g.Connections(ctx)) }).WithContext(ctx).WithTimeout(patience).Should(BeZero(), "listed")
	g.counts(ctx, counts{})
	Eventually(func() int { return g.BrokerFiles(ctx) }).WithContext(ctx).WithTimeout(patience).Should(BeNumerically("<=", g.files+2), "files")
	if g.KernelExact(ctx) {
		// What the broker has closed and TCP has not ended yet is not the broker's any more.
		Eventually(func() int64 {
			n := int64(0)
			ports := g.Kernel(ctx).Ports
			for i := range ports {
				n += ports[i].Gauge.Established - ports[i].Closing
			}
			return n - g.own(ctx)
		}).WithContext(ctx).WithTimeout(patience).Should(BeZero(), "established")
		Eventually(func() int64 {
			return g.Kernel(ctx).Group.Served - g.own(ctx)
		}).WithContext(ctx).WithTimeout(patience).Should(BeZero(), "served")
	}
	Expect(g.Reconcile(ctx)).To(stage.BeExplained())
}

// fits shows that no slot was lost: as many clients as there are slots get in, at once.
func (g *ground) fits(ctx context.Context, group fleet.Group) {
	GinkgoHelper()
	f := g.in(ctx, group)
	leave(f, 0, fleet.FIN)
	g.atRest(ctx)
}
