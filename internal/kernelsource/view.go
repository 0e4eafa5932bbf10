package kernelsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/brokerlab/brokerlab/bpf/sockacct"
	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/internal/kernel/sockdiag"
)

// view is what one broker sees: the ports that it watches in one network namespace. Safe for concurrent use.
type view struct {
	hub    *hub
	netns  uint64
	within func(func() error) error
	diag   *sockdiag.Conn
	table  *table // without BPF

	mu      sync.Mutex
	closed  bool
	groups  []uint32 // of its ports; the first is that of ports to come
	ports   []uint16 // in order
	missing int      // connections that were there before and could not be counted
	why     string   // they could not
	bytes   map[uint16]traffic
	drift   []sockacct.Drift // of its ports, as the last audit found
}

type traffic struct{ in, out uint64 }

// Watch counts ports from now on, and the connections that they have.
func (v *view) Watch(ports []uint16) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return errClosed
	}
	ports = slices.DeleteFunc(slices.Clone(ports), func(p uint16) bool { return slices.Contains(v.ports, p) })
	slices.Sort(ports)
	ports = slices.Compact(ports)
	if len(ports) == 0 {
		return nil
	}
	if v.table != nil {
		if err := v.table.watch(ports); err != nil {
			return err
		}
	} else if err := v.count(ports); err != nil {
		return err
	}
	v.ports = append(v.ports, ports...)
	slices.Sort(v.ports)
	return nil
}

var errClosed = errors.New("kernel source is closed")

func (v *view) count(ports []uint16) error {
	var group uint32
	if len(v.groups) > 0 {
		group = v.groups[0]
	}
	groups, err := v.hub.watch(v.netns, ports, group)
	if err != nil {
		return err
	}
	for _, g := range groups {
		if !slices.Contains(v.groups, g) {
			v.groups = append(v.groups, g)
		}
	}
	if err := v.seed(ports); err != nil {
		v.hub.unwatch(v.netns, ports)
		return err
	}
	return nil
}

// seed counts what was there before, and what of it could not be counted.
func (v *view) seed(ports []uint16) error {
	before := false
	for _, port := range ports {
		sockets, err := v.diag.Dump(port, sockdiag.Connected())
		if err != nil {
			return err
		}
		before = before || len(sockets) > 0
	}
	if !before {
		return nil // as it is for a broker, which watches before it listens
	}
	seeded := v.hub.counter.Seed(v.within)
	missing, err := v.uncounted(ports)
	if err != nil || missing == 0 {
		return err
	}
	v.missing += missing
	v.why = "the kernel refused to follow them"
	if seeded != nil {
		v.why = seeded.Error()
	}
	return nil
}

// uncounted returns how many connections of ports are not counted right after their seeding.
func (v *view) uncounted(ports []uint16) (int, error) {
	n := 0
	if v.hub.counter.Listing() == nil {
		sockets, err := v.hub.counter.Sockets(v.within)
		for i := range sockets {
			if !sockets[i].Counted && slices.Contains(ports, sockets[i].Local.Port()) {
				n++
			}
		}
		return n, err
	}
	if v.hub.counter.Seeding() == nil {
		return 0, nil // nothing was refused, or it is in what was lost
	}
	for _, port := range ports { // who is here now was here before, or is counted already: the most that can be missing
		sockets, err := v.diag.Dump(port, sockdiag.Connected())
		if err != nil {
			return 0, err
		}
		counted, err := v.hub.counter.Port(v.netns, port)
		if err != nil {
			return 0, err
		}
		n += max(0, len(sockets)-int(counted.Established))
	}
	return n, nil
}

// Report returns the counts of the watched ports.
func (v *view) Report(ctx context.Context) (broker.KernelReport, error) {
	if err := ctx.Err(); err != nil {
		return broker.KernelReport{}, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return broker.KernelReport{}, errClosed
	}
	if v.table != nil {
		return v.table.report(v.ports, v.hub.why)
	}
	return v.report()
}

func (v *view) report() (broker.KernelReport, error) {
	r := broker.KernelReport{Mode: broker.KernelModeFull, Ports: make([]broker.KernelPort, 0, len(v.ports))}
	open, err := v.openBytes()
	if err != nil {
		return r, err
	}
	sources, err := v.hub.counter.Sources()
	if err != nil {
		return r, err
	}
	listeners, err := listenersOf(v.diag)
	if err != nil {
		return r, err
	}
	for _, number := range v.ports {
		var p sockacct.Port
		if p, err = v.hub.counter.Port(v.netns, number); err != nil {
			return r, err
		}
		k := kernelPort(&p)
		// A connection that closed since it was listed counts twice, until the next report: never let a total fall.
		was := v.bytes[number]
		k.BytesIn = max(was.in, p.ClosedBytesIn+open[number].in)
		k.BytesOut = max(was.out, p.ClosedBytesOut+open[number].out)
		v.bytes[number] = traffic{k.BytesIn, k.BytesOut}
		listeners.fill(&k)
		for _, s := range sources {
			if s.Netns == v.netns && s.Port == number {
				k.Sources = append(k.Sources, broker.KernelSourceCount{Addr: s.Addr, Count: s.Count})
			}
		}
		sortSources(k.Sources)
		add(&r.Group, &k)
		r.Ports = append(r.Ports, k)
	}
	if r.Group, err = v.marks(r.Group); err != nil {
		return r, err
	}
	if r.Lost, err = v.hub.counter.Lost(); err != nil {
		return r, err
	}
	for _, d := range v.drift {
		r.Lost["drift"] += uint64(max(d.Established-d.Listed, d.Listed-d.Established))
	}
	r.Exactness, r.Why = v.exactness(r.Lost)
	return r, nil
}

// openBytes adds up the bytes of the connections that are open, by port. Without listing those of closed ones remain.
func (v *view) openBytes() (map[uint16]traffic, error) {
	open := map[uint16]traffic{}
	if v.hub.counter.Listing() == nil {
		sockets, err := v.hub.counter.Sockets(v.within)
		if err != nil {
			return nil, err
		}
		for i := range sockets {
			if s := &sockets[i]; s.Counted {
				t := open[s.Local.Port()]
				open[s.Local.Port()] = traffic{t.in + s.BytesIn, t.out + s.BytesOut}
			}
		}
	}
	return open, nil
}

// marks completes a group's sums by its gauge. There are several only where brokers of one namespace took over each other's
// ports; then the highest marks are shown.
func (v *view) marks(g broker.KernelGauge) (broker.KernelGauge, error) {
	for _, id := range v.groups {
		m, err := v.hub.counter.Group(id)
		if err != nil {
			return g, err
		}
		g.ServedMax = max(g.ServedMax, m.ServedMax)
		g.ServedTLSMax = max(g.ServedTLSMax, m.ServedTLSMax)
	}
	return g, nil
}

func (v *view) exactness(lost map[string]uint64) (exactness, why string) {
	var reasons []string
	if v.missing > 0 {
		reasons = append(reasons, fmt.Sprintf("%d connections were there before counting began and are not counted: %s", v.missing, v.why))
	}
	for what, n := range lost {
		if what == "drift" {
			reasons = append(reasons, fmt.Sprintf("counts and sockets differ by %d for good: events were lost, and high-water marks prove nothing", n))
			continue
		}
		reasons = append(reasons, fmt.Sprintf("%d %s lost", n, what))
	}
	if err := v.hub.counter.Listing(); err != nil {
		reasons = append(reasons, fmt.Sprintf("bytes of open connections are missing: %v", err))
	}
	if len(reasons) == 0 {
		return broker.KernelExact, ""
	}
	slices.Sort(reasons)
	return broker.KernelLowerBound, strings.Join(reasons, "; ")
}

// Sockets lists the connections of one watched port.
func (v *view) Sockets(ctx context.Context, port uint16) ([]broker.KernelSocket, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.closed:
		return nil, errClosed
	case !slices.Contains(v.ports, port):
		return nil, fmt.Errorf("list sockets of port %d: %w", port, sockacct.ErrNotWatched)
	case v.table != nil || v.hub.counter.Listing() != nil:
		return v.fromTable(port)
	}
	all, err := v.hub.counter.Sockets(v.within)
	if err != nil {
		return nil, err
	}
	sockets := []broker.KernelSocket{}
	for i := range all {
		s := &all[i]
		if s.Local.Port() != port {
			continue
		}
		var since time.Time
		if s.Counted && !s.Seeded {
			since = s.Since
		}
		sockets = append(sockets, broker.KernelSocket{
			Cookie: s.Cookie, Remote: s.Remote, BytesIn: s.BytesIn, BytesOut: s.BytesOut, Since: since,
			RTTMicros: uint32(s.RTT.Microseconds()), State: sockdiag.State(s.State).String(), Protocol: s.Verdict.String(),
		})
	}
	return sockets, nil
}

func (v *view) fromTable(port uint16) ([]broker.KernelSocket, error) {
	all, err := v.diag.Dump(port, sockdiag.Connected())
	if err != nil {
		return nil, err
	}
	sockets := make([]broker.KernelSocket, 0, len(all))
	for i := range all {
		s := &all[i]
		sockets = append(sockets, broker.KernelSocket{
			Cookie: s.Cookie, Remote: s.Remote, BytesIn: s.BytesIn, BytesOut: s.BytesOut,
			RTTMicros: uint32(s.RTT.Microseconds()), State: s.State.String(), Protocol: sockacct.Unknown.String(),
		})
	}
	return sockets, nil
}

// Close ends the view; the counting of its ports ends when their last connection has.
func (v *view) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil
	}
	v.closed = true
	v.hub.drop(v)
	v.hub.unwatch(v.netns, v.ports)
	return v.diag.Close()
}

func kernelPort(p *sockacct.Port) broker.KernelPort {
	return broker.KernelPort{
		Port: p.Port, Established: p.Established, Sources: []broker.KernelSourceCount{},
		TLS: p.TLS, Plaintext: p.Plaintext, Undecided: p.Undecided, Unknown: p.Unknown,
		Closing: p.Closing,
		Opened:  p.Opened, Closed: p.Closed, Seeded: p.Seeded,
		Served: p.Gauge.Served, ServedMax: p.Gauge.ServedMax,
		ServedTLS: p.Gauge.ServedTLS, ServedTLSMax: p.Gauge.ServedTLSMax, ServedTotal: p.Gauge.ServedTotal,
	}
}

func add(g *broker.KernelGauge, p *broker.KernelPort) {
	g.Established += p.Established
	g.TLS += p.TLS
	g.Plaintext += p.Plaintext
	g.Undecided += p.Undecided
	g.Unknown += p.Unknown
	g.Opened += p.Opened
	g.Closed += p.Closed
	g.Served += p.Served
	g.ServedTLS += p.ServedTLS
	g.ServedTotal += p.ServedTotal
}

func sortSources(sources []broker.KernelSourceCount) {
	slices.SortFunc(sources, func(a, b broker.KernelSourceCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), a.Addr.Compare(b.Addr))
	})
}

// listeners are the listening sockets of a namespace, by port: several where a program listens on several addresses.
type listeners map[uint16][]sockdiag.Socket

func listenersOf(diag *sockdiag.Conn) (listeners, error) {
	sockets, err := diag.Dump(0, sockdiag.Set(sockdiag.Listen))
	if err != nil {
		return nil, err
	}
	byPort := listeners{}
	for i := range sockets {
		byPort[sockets[i].Local.Port()] = append(byPort[sockets[i].Local.Port()], sockets[i])
	}
	return byPort, nil
}

func (l listeners) fill(p *broker.KernelPort) {
	for i := range l[p.Port] {
		s := &l[p.Port][i]
		p.AcceptQueue += int64(s.Queue)
		p.Backlog += int64(s.Backlog)
		p.Overflows += int64(s.Drops)
	}
}

func (v *view) setDrift(drift []sockacct.Drift) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.drift = slices.DeleteFunc(drift, func(d sockacct.Drift) bool { return !slices.Contains(v.ports, d.Port) })
}

// StartUpGap is how many connections were there before their port was watched and could not be counted.
func (v *view) StartUpGap() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return int64(v.missing)
}
