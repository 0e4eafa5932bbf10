package hostile

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

const (
	goodNet    = "10.1.0.0/24"
	hostileNet = "10.66.0.0/16"
	mebibyte   = 1 << 20
	// allowedGrowth is what an attack may add to the broker's memory beside a multiple of the bytes that it really sends: room
	// for the answers to good clients and for a collection to be late.
	allowedGrowth = 48 * mebibyte
	// perByte is how many bytes of memory a byte that was sent may cost while it is looked at.
	perByte  = 40
	patience = time.Minute
)

// attack is one row of the table: what many connections do at once, and what becomes of them.
type attack struct {
	name     string
	listener string
	count    int
	// reason is what each connection's end is put down to. Attacks that the broker answers rather than ends are client_closed.
	reason string
	// do is what one connection does. It returns when it has done its worst; the connection then waits for its end, or leaves
	// if it is to be client_closed.
	do func(*assailant) error
	// hold is how long connections stay when they have done their worst, before they leave.
	hold time.Duration
	// unread: answers have begun to come when they leave, and are never read.
	unread bool
	// spares is why Apache Kafka is not tried by the attack; empty: it is.
	spares string
	// room is what the attack may add to the broker's memory beyond what any may, for want of a better bound than the broker's own.
	room int64
}

// assailant is one connection of an attack.
type assailant struct {
	net.Conn
	ctx  context.Context //nolint:containedctx // that of the attack, for what the attack does with its connection
	sent int64
}

func (a *assailant) Write(b []byte) (int, error) {
	n, err := a.Conn.Write(b)
	a.sent += int64(n)
	return n, err
}

// field is where attacks happen: a broker, its good clients, and what is known of them.
type field struct {
	*stage.Stage
	good *fleet.Fleet
	rows [][]string
}

// newField brings up a broker that good clients use all the time, over all four protocols.
func newField(ctx SpecContext, properties ...string) *field {
	GinkgoHelper()
	f := &field{Stage: stage.New(ctx, stage.Subnet(goodNet, hostileNet),
		stage.Broker(append([]string{"socket.listen.backlog.size=4096", "connection.failed.authentication.delay.ms=50"}, properties...)...))}
	var groups []fleet.Group
	for _, listener := range []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"} {
		user := "alice"
		if listener == "PLAINTEXT" {
			user = stage.Nobody
		}
		g := f.Group(goodNet, listener, user, 5)
		g.Behaviour, g.Every = fleet.Metadata, 50*time.Millisecond
		groups = append(groups, g)
	}
	f.good = f.Fleet(ctx, groups...)
	stage.AllUp(f.good)
	Eventually(f.good.Records).WithContext(ctx).WithTimeout(patience).Should(HaveEach(HaveField("Requests", BeNumerically(">", 20))))
	f.row("no attack", 0, 0, 0, f.good.Latencies()[fleet.RequestLatency], "")
	return f
}

func (f *field) row(name string, count int, sent, growth int64, h *hdrhistogram.Histogram, reason string) {
	f.rows = append(f.rows, []string{
		name, strconv.Itoa(count), size(sent), size(growth), milliseconds(h.ValueAtQuantile(50)), milliseconds(h.ValueAtQuantile(99)), reason,
	})
}

func milliseconds(micros int64) string { return fmt.Sprintf("%.1f", float64(micros)/1000) }

func size(n int64) string {
	switch {
	case n >= mebibyte:
		return fmt.Sprintf("%.1f MiB", float64(n)/mebibyte)
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return strconv.FormatInt(n, 10)
}

// endure lets the attacks happen one after another, holds the broker to what each may cost, and puts the table into the report.
func (f *field) endure(ctx context.Context, attacks ...attack) {
	GinkgoHelper()
	files, memory := f.BrokerFiles(ctx), f.Memory(ctx).Resident
	for _, a := range attacks {
		if a.spares != "" && stage.Target().IsKafka() {
			f.rows = append(f.rows, []string{a.name, "0", "", "", "", "", "not tried: " + a.spares})
			continue
		}
		By(a.name)
		f.suffer(ctx, a)
	}
	By("nothing is left")
	Eventually(func() int { return f.BrokerFiles(ctx) }).WithContext(ctx).WithTimeout(patience).Should(BeNumerically("<=", files+2))
	if !stage.Target().IsKafka() { // a JVM keeps the heap that it has grown
		Eventually(func() int64 { return f.Memory(ctx).Resident - memory }).WithContext(ctx).WithTimeout(time.Minute).
			Should(BeNumerically("<", allowedGrowth), "memory that is not given back")
	}
	Expect(f.Connections(ctx)).To(HaveLen(f.good.UpCount()))
	Expect(f.Reconcile(ctx)).To(stage.BeExplained())
	report.Attach(report.Table{
		Name:    "What attacks cost",
		Columns: []string{"attack", "connections", "bytes sent", "broker's memory, peak growth (VmHWM)", "good clients' p50, ms", "p99, ms", "reason of the end (broker)"},
		Rows:    f.rows,
	})
}

// suffer is one attack.
func (f *field) suffer(ctx context.Context, a attack) {
	GinkgoHelper()
	before := f.good.Latencies()[fleet.RequestLatency]
	ended := f.ending(ctx, &a)
	memory := f.ResetPeak(ctx)
	sent := f.assail(ctx, &a)
	ended()
	growth := max(0, f.Memory(ctx).Peak-memory)
	var meanwhile *hdrhistogram.Histogram
	Eventually(func() int64 {
		meanwhile = stage.Since(f.good.Latencies()[fleet.RequestLatency], before)
		return meanwhile.TotalCount()
	}).WithContext(ctx).WithTimeout(patience).Should(BeNumerically(">=", 100), "%s: good clients are served no more", a.name)
	reason := a.reason
	if !stage.Has(stage.Metrics) {
		reason = "not told"
	}
	f.row(a.name, a.count, sent, growth, meanwhile, reason)
	if !stage.Target().IsKafka() { // a JVM collects its garbage when it likes
		Expect(growth).To(BeNumerically("<", allowedGrowth+a.room+perByte*sent), "%s: memory for %d bytes", a.name, sent)
	}
	stage.AllUp(f.good)
	Expect(f.good.Stats().Failures).To(BeZero(), "%s: a good client was not served", a.name)
}

// ending is called before an attack; what it returns waits until each connection of the attack has ended, for its reason if the broker
// tells that.
func (f *field) ending(ctx context.Context, a *attack) (wait func()) {
	GinkgoHelper()
	if !stage.Has(stage.Metrics) {
		return func() {
			GinkgoHelper()
			Eventually(func() int { return len(f.Connections(ctx)) }).WithContext(ctx).WithTimeout(patience).
				Should(BeNumerically("<=", f.good.UpCount()), "the connections have ended")
		}
	}
	reasons := f.Closed(ctx)
	return func() {
		GinkgoHelper()
		Eventually(func() int { return f.Closed(ctx)[a.reason] - reasons[a.reason] }).WithContext(ctx).WithTimeout(patience).
			Should(BeNumerically(">=", a.count), func() string {
				return fmt.Sprintf("each connection has its reason, %s; before they were %v, and are %v now", a.reason, reasons, f.Closed(ctx))
			})
	}
}

// assail is the attackers' side. It returns how many bytes they sent.
func (f *field) assail(ctx context.Context, a *attack) int64 {
	GinkgoHelper()
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	var (
		sent    atomic.Int64
		errs    = make(chan error, a.count)
		working sync.WaitGroup
	)
	for i := range a.count {
		working.Go(func() {
			n, err := f.one(ctx, a, i)
			sent.Add(n)
			if err != nil {
				errs <- err
			}
		})
	}
	working.Wait()
	close(errs)
	Expect(<-errs).NotTo(HaveOccurred(), a.name)
	return sent.Load()
}

// one is one connection of an attack, from its beginning to its end.
func (f *field) one(ctx context.Context, a *attack, i int) (int64, error) {
	n := f.Network(hostileNet)
	port := map[string]string{"PLAINTEXT": "9092", "SSL": "9093", "SASL_PLAINTEXT": "9094", "SASL_SSL": "9095"}[a.listener]
	conn, err := n.Dialer(n.Addr(i))(ctx, "tcp", net.JoinHostPort("broker", port))
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return 0, err
		}
	}
	who := &assailant{Conn: conn, ctx: ctx}
	if err := a.do(who); err != nil {
		return who.sent, fmt.Errorf("connection %d: %w", i, err)
	}
	if a.unread {
		if err := answered(conn); err != nil {
			return who.sent, fmt.Errorf("connection %d: %w", i, err)
		}
	}
	if a.reason == "client_closed" || a.reason == "client_reset" {
		return who.sent, pause(ctx, a.hold)
	}
	return who.sent, awaitEnd(conn)
}

// answered waits until the broker has begun to answer, and leaves what it says unread: a socket that is closed over unread bytes is
// reset, one that has none ends like any other.
func answered(conn net.Conn) error {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	var peeked error
	if err := raw.Read(func(fd uintptr) bool {
		_, _, peeked = unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK)
		return !errors.Is(peeked, unix.EAGAIN) && !errors.Is(peeked, unix.EINTR)
	}); err != nil {
		return err
	}
	return peeked
}

func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitEnd reads until the broker ends the connection, in whatever way.
func awaitEnd(conn net.Conn) error {
	b := make([]byte, 4096)
	for {
		_, err := conn.Read(b)
		if timeout, ok := err.(net.Error); ok && timeout.Timeout() { //nolint:errorlint // as it comes from the socket
			return fmt.Errorf("the broker left the connection open: %w", err)
		}
		if err != nil {
			return nil //nolint:nilerr // the end that was waited for
		}
	}
}
