package api

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/netip"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/dynamicconfig"
	"github.com/brokerlab/brokerlab/broker/internal/network"
	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/broker/quota"
)

// Limits is what is asked of the limits on connections; *quota.Connections is it.
type Limits interface {
	State() quota.State
	Forecast(listener string, addr netip.Addr) (quota.Forecast, error)
	IP(addr netip.Addr) quota.IPState
	EachIP(f func(addr netip.Addr, connections int) bool)
	EachIPRate(f func(addr netip.Addr, perSecond float64) bool)
}

// How many client addresses DescribeLimits tells of.
const (
	usualAddresses = 10
	mostAddresses  = 1_000
)

// Configs of limits, beside those that quota.Limit names.
const perIPOverrides = "max.connections.per.ip.overrides"

// describeLimits tells every limit on connections: what it is, where it was set, how much of it is used, who waits for it, and
// what happens to the next connection.
//
// Versions: 0.
// Needs: DESCRIBE on CLUSTER.
// Errors: CLUSTER_AUTHORIZATION_FAILED; INVALID_REQUEST for an address filter that is neither address nor prefix, or a negative
// number of addresses. ErrorMessage says which.
// Differs from Kafka: Kafka has no such API.
func describeLimits(ctx context.Context, q *call, req *protocol.DescribeLimitsRequest) (*protocol.DescribeLimitsResponse, error) {
	resp := protocol.NewPtrDescribeLimitsResponse()
	resp.NodeID, resp.Time = q.server.o.NodeID, time.Now().UnixMilli()
	f, why := describedFilter(filter{}, req.AddressFilter, req.ListenerFilter, nil)
	if req.AddressLimit < 0 {
		why = "a number of addresses is not negative"
	}
	if why != "" {
		resp.ErrorCode, resp.ErrorMessage = kerr.InvalidRequest.Code, &why
		return resp, nil
	}
	if q.server.o.Limits == nil { // nobody counts, so there are none
		return resp, nil
	}
	d := limitsDescriber{server: q.server, state: q.server.o.Limits.State(), configs: q.server.brokerConfigs()}
	d.addresses(resp, &f, int(req.AddressLimit))
	resp.Limits = d.limits(f.listener)
	resp.Listeners = d.listeners(ctx, f.listener)
	q.audit("DescribeLimits", len(resp.Addresses))
	return resp, nil
}

// limitsDescriber describes one moment's limits.
type limitsDescriber struct {
	server  *Server
	state   quota.State
	configs *brokerConfigs
	busiest int     // connections of the address that has the most
	fastest float64 // connections a second of the address that connects most often
}

// limits lists the limits of the broker, of each listener and of addresses.
func (d *limitsDescriber) limits(only *string) []protocol.DescribeLimitsResponseLimit {
	c := &d.state.Config
	all := []protocol.DescribeLimitsResponseLimit{
		d.limit(quota.MaxConnections, "", c.MaxConnections, float64(d.state.Connections)),
		d.limit(quota.MaxSSLConnections, "", c.MaxSSLConnections, float64(d.state.SSL)),
		d.limit(quota.ConnectionRate, "", c.CreationRate, d.state.CreationRate),
	}
	for i := range d.state.Listeners {
		l := &d.state.Listeners[i]
		if only != nil && l.Name != *only {
			continue
		}
		own, ok := c.Listeners[l.Name]
		if !ok {
			own = quota.ListenerConfig{MaxConnections: quota.Unlimited, CreationRate: quota.Unlimited}
		}
		all = append(all, d.limit(quota.ListenerMaxConnections, l.Name, own.MaxConnections, float64(l.Connections)),
			d.limit(quota.ListenerConnectionRate, l.Name, own.CreationRate, l.CreationRate))
	}
	rate := d.limit(quota.IPConnectionRate, "", d.state.IPDefaultRate, d.fastest)
	rate.Source, rate.SetBy = quotaSource(d.state.IPDefaultRate != quota.Unlimited)
	return append(all, d.limit(quota.MaxConnectionsPerIP, "", c.MaxPerIP, float64(d.busiest)), rate)
}

func (d *limitsDescriber) limit(l quota.Limit, listener string, value int, inUse float64) protocol.DescribeLimitsResponseLimit {
	row := protocol.DescribeLimitsResponseLimit{
		Name: l.String(), ListenerName: listener, Unit: unitOf(l), Scope: scopeOf(l), Value: int64(value),
		InUse: inUse, CountedBy: protocol.CountedByBroker, Exactness: protocol.ExactnessExact,
	}
	row.Source, row.SetBy = d.configs.setBy(listener, l.String())
	return row
}

func unitOf(l quota.Limit) string {
	switch l {
	case quota.ConnectionRate, quota.ListenerConnectionRate, quota.IPConnectionRate:
		return "connections/s"
	default:
		return "connections"
	}
}

func scopeOf(l quota.Limit) string {
	switch l {
	case quota.None:
		return ""
	case quota.ListenerMaxConnections, quota.ListenerConnectionRate:
		return protocol.ScopeListener
	case quota.MaxConnectionsPerIP, quota.IPConnectionRate:
		return protocol.ScopeAddress
	default:
		return protocol.ScopeBroker
	}
}

// limitName is the name of a limit in a message; "" for none.
func limitName(l quota.Limit) string {
	if l == quota.None {
		return ""
	}
	return l.String()
}

// setBy tells where a config's value is from, as listener (upper case) sees it when that is not "": its own at any level, before
// that of all.
func (b *brokerConfigs) setBy(listener, name string) (source, config string) {
	var from []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym
	if listener != "" {
		from = b.synonyms(dynamicconfig.Prefix(listener)+name, false)
	}
	if len(from) == 0 {
		from = b.synonyms(name, false)
	}
	if len(from) == 0 {
		return protocol.SourceDefault, ""
	}
	switch from[0].Source {
	case kmsg.ConfigSourceDynamicBrokerConfig:
		return protocol.SourceDynamicBroker, from[0].Name
	case kmsg.ConfigSourceDynamicDefaultBrokerConfig:
		return protocol.SourceDynamicDefault, from[0].Name
	case kmsg.ConfigSourceStaticBrokerConfig:
		return protocol.SourceStatic, from[0].Name
	default:
		return protocol.SourceDefault, ""
	}
}

// quotaSource is setBy for what client quotas set.
func quotaSource(set bool) (source, config string) {
	if set {
		return protocol.SourceClientQuota, quota.IPConnectionRate.String()
	}
	return protocol.SourceDefault, ""
}

func (d *limitsDescriber) listeners(ctx context.Context, only *string) []protocol.DescribeLimitsResponseListener {
	var all []protocol.DescribeLimitsResponseListener
	kernel := d.kernelPorts(ctx)
	counts := d.server.o.Counts()
	for i := range d.state.Listeners {
		l := &d.state.Listeners[i]
		if only != nil && l.Name != *only {
			continue
		}
		row := protocol.DescribeLimitsResponseListener{
			ListenerName: l.Name, TLS: l.TLS, Protected: l.Protected, Connections: int64(l.Connections),
			Blocked: l.Blocked.Mean, BlockedOneMinute: l.Blocked.OneMinute, BlockedFiveMinutes: l.Blocked.FiveMinute, BlockedFifteenMinutes: l.Blocked.FifteenMinute,
			Next: d.next(l),
		}
		if w := l.Waiting; w != nil {
			row.Held = &protocol.DescribeLimitsResponseHeld{
				Address: network.JavaAddr(w.Addr), Since: w.Since.UnixMilli(), WaitsFor: limitName(w.Limit), Scope: scopeOf(w.Limit),
				DelayMillis: w.Delay.Milliseconds(),
			}
		}
		if at := slices.IndexFunc(counts, func(n network.ListenerCounts) bool { return n.Listener.Name == l.Name }); at >= 0 {
			n := &counts[at]
			row.SecurityProtocol, row.Port = n.Listener.Protocol.String(), int32(n.Bound.Port())
			row.Throttled, row.Queued = n.Throttled, n.Queued
			row.AcceptQueue = d.acceptQueue(l.Name, kernel[row.Port])
		}
		all = append(all, row)
	}
	return all
}

// kernelPorts is the kernel's report by port, for what only it counts; empty where nobody counts.
func (d *limitsDescriber) kernelPorts(ctx context.Context) map[int32]*protocol.DescribeKernelResponsePort {
	ports := map[int32]*protocol.DescribeKernelResponsePort{}
	if d.server.o.Kernel == nil {
		return ports
	}
	report, err := d.server.o.Kernel.Report(ctx)
	if err != nil {
		return ports
	}
	for i := range report.Ports {
		ports[report.Ports[i].Port] = &report.Ports[i]
	}
	return ports
}

// acceptQueue is the kernel's own count of who waits to be accepted, read from the listening socket, which needs no privilege.
// counted is nil where the kernel's accounting is off: only that counts overflows.
func (d *limitsDescriber) acceptQueue(listener string, counted *protocol.DescribeKernelResponsePort) protocol.DescribeLimitsResponseQueue {
	row := protocol.DescribeLimitsResponseQueue{Overflows: -1, CountedBy: protocol.CountedByKernel, Exactness: protocol.ExactnessExact}
	queue, err := d.server.o.AcceptQueue(listener)
	row.Length, row.Backlog = queue.Length, queue.Backlog
	if counted != nil {
		row.Overflows = counted.Overflows
	}
	switch {
	case err == nil:
	case counted != nil:
		row.Length, row.Backlog = counted.AcceptQueue, counted.Backlog
	default:
		row.Exactness, row.Why = protocol.ExactnessUnknown, err.Error()
	}
	return row
}

// next is what happens to a connection of an address that has none.
func (d *limitsDescriber) next(l *quota.ListenerState) protocol.DescribeLimitsResponseNext {
	f, err := d.server.o.Limits.Forecast(l.Name, netip.Addr{})
	if err != nil { // the listener went meanwhile
		return protocol.DescribeLimitsResponseNext{Outcome: protocol.NextClosedAtOnce}
	}
	if w := l.Waiting; w != nil { // who comes now is after who waits
		if left := w.Delay - time.Since(w.Since); left > 0 {
			f.Delay += left
			if f.Rate == quota.None {
				f.Rate = w.Limit
			}
		} else if f.Slot == quota.None {
			f.Slot = w.Limit
		}
	}
	switch {
	case f.Slot != quota.None:
		return protocol.DescribeLimitsResponseNext{
			Outcome: protocol.NextWaitsForSlot, Limit: f.Slot.String(), Scope: scopeOf(f.Slot), Millis: f.Delay.Milliseconds(),
		}
	case f.Delay > 0:
		return protocol.DescribeLimitsResponseNext{
			Outcome: protocol.NextWaitsForRate, Limit: f.Rate.String(), Scope: scopeOf(f.Rate), Millis: f.Delay.Milliseconds(),
		}
	}
	return nextOfAddress(f)
}

// nextOfAddress is the part of the outcome that is about the address.
func nextOfAddress(f quota.Forecast) protocol.DescribeLimitsResponseNext {
	switch {
	case f.IPDelay > 0:
		return protocol.DescribeLimitsResponseNext{
			Outcome: protocol.NextHeldThenShut, Limit: quota.IPConnectionRate.String(), Scope: protocol.ScopeAddress, Millis: f.IPDelay.Milliseconds(),
		}
	case f.TooMany:
		return protocol.DescribeLimitsResponseNext{
			Outcome: protocol.NextClosedAtOnce, Limit: quota.MaxConnectionsPerIP.String(), Scope: protocol.ScopeAddress,
		}
	}
	return protocol.DescribeLimitsResponseNext{Outcome: protocol.NextAdmitted}
}

// addresses lists those that pass f and have connections, have connected under a quota of late, or have a limit of their own: the
// busiest first.
func (d *limitsDescriber) addresses(resp *protocol.DescribeLimitsResponse, f *filter, most int) {
	if most == 0 {
		most = usualAddresses
	}
	type row struct {
		addr        netip.Addr
		connections int
		perSecond   float64
	}
	all := map[netip.Addr]*row{}
	of := func(addr netip.Addr) *row {
		if all[addr] == nil {
			all[addr] = &row{addr: addr}
		}
		return all[addr]
	}
	d.server.o.Limits.EachIP(func(addr netip.Addr, connections int) bool {
		d.busiest = max(d.busiest, connections)
		of(addr).connections = connections
		return true
	})
	d.server.o.Limits.EachIPRate(func(addr netip.Addr, perSecond float64) bool {
		d.fastest = max(d.fastest, perSecond)
		of(addr).perSecond = perSecond
		return true
	})
	for addr := range d.state.Config.PerIP {
		of(addr)
	}
	for addr := range d.state.IPRates {
		of(addr)
	}
	rows := slices.DeleteFunc(slices.Collect(maps.Values(all)), func(r *row) bool { return f.address != nil && !f.address.Contains(r.addr) })
	slices.SortFunc(rows, func(a, b *row) int {
		return cmp.Or(cmp.Compare(b.connections, a.connections), cmp.Compare(b.perSecond, a.perSecond), a.addr.Compare(b.addr))
	})
	resp.AddressCount = int32(min(len(rows), math.MaxInt32))
	for _, r := range rows[:min(len(rows), most, mostAddresses)] {
		resp.Addresses = append(resp.Addresses, d.address(r.addr))
	}
}

func (d *limitsDescriber) address(addr netip.Addr) protocol.DescribeLimitsResponseAddress {
	s := d.server.o.Limits.IP(addr)
	row := protocol.DescribeLimitsResponseAddress{
		Address: network.JavaAddr(addr), Connections: int64(s.Connections), Max: int64(s.Max),
		Rate: int64(s.Rate), RateOwn: s.RateOverride, InUseRate: s.CreationRate,
		Next: protocol.DescribeLimitsResponseNext{Outcome: protocol.NextAdmitted},
	}
	limit := quota.MaxConnectionsPerIP.String()
	if s.Override {
		limit = perIPOverrides
	}
	row.MaxSource, row.MaxSetBy = d.configs.setBy("", limit)
	row.RateSource, _ = quotaSource(s.RateOverride || s.Rate != quota.Unlimited)
	if len(d.state.Listeners) > 0 { // the address's own limits are the same on all
		if f, err := d.server.o.Limits.Forecast(d.state.Listeners[0].Name, addr); err == nil {
			row.Next = nextOfAddress(f)
		}
	}
	return row
}
