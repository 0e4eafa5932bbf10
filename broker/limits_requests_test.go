package broker_test

import (
	"bytes"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// limited is a broker with a listener for clients and one for brokers, which the limits of the broker do not hold.
func limited(t *testing.T, options []broker.Option, properties ...string) *broker.Broker {
	t.Helper()
	return admintest.Real(t, append([]string{
		"listeners=CLIENT://127.0.0.1:0,INSIDE://127.0.0.1:0", "advertised.listeners=CLIENT://127.0.0.1:0,INSIDE://127.0.0.1:0",
		"listener.security.protocol.map=CLIENT:PLAINTEXT,INSIDE:PLAINTEXT", "inter.broker.listener.name=INSIDE",
	}, properties...), options...)
}

// setConfig sets a broker config; node "" is for all brokers.
func setConfig(r *raw, node, name, value string) {
	r.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeBroker, node
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	c.Name, c.Value = name, &value
	res.Configs = append(res.Configs, c)
	req.Resources = append(req.Resources, res)
	if got := ask[*kmsg.IncrementalAlterConfigsResponse](r, req).Resources[0]; got.ErrorCode != 0 {
		r.t.Fatalf("set %s=%s: %d %s", name, value, got.ErrorCode, *got.ErrorMessage)
	}
}

// setIPRate sets the quota of an address; nil is the default of all.
func setIPRate(r *raw, addr *string, perSecond float64) {
	r.t.Helper()
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Version = 1
	e := kmsg.NewAlterClientQuotasRequestEntry()
	part := kmsg.NewAlterClientQuotasRequestEntryEntity()
	part.Type, part.Name = "ip", addr
	e.Entity = append(e.Entity, part)
	op := kmsg.NewAlterClientQuotasRequestEntryOp()
	op.Key, op.Value = "connection_creation_rate", perSecond
	e.Ops = append(e.Ops, op)
	req.Entries = append(req.Entries, e)
	if got := ask[*kmsg.AlterClientQuotasResponse](r, req).Entries[0]; got.ErrorCode != 0 {
		r.t.Fatalf("set the rate of %v: %d %v", addr, got.ErrorCode, got.ErrorMessage)
	}
}

func describeLimits(r *raw, set func(*protocol.DescribeLimitsRequest)) *protocol.DescribeLimitsResponse {
	r.t.Helper()
	req := protocol.NewPtrDescribeLimitsRequest()
	if set != nil {
		set(req)
	}
	return ask[*protocol.DescribeLimitsResponse](r, req)
}

func limitRow(resp *protocol.DescribeLimitsResponse, name, listener string) protocol.DescribeLimitsResponseLimit {
	for i := range resp.Limits {
		if l := resp.Limits[i]; l.Name == name && l.ListenerName == listener {
			return l
		}
	}
	return protocol.DescribeLimitsResponseLimit{}
}

func limitListener(resp *protocol.DescribeLimitsResponse, name string) protocol.DescribeLimitsResponseListener {
	for i := range resp.Listeners {
		if l := resp.Listeners[i]; l.ListenerName == name {
			return l
		}
	}
	return protocol.DescribeLimitsResponseListener{}
}

// from connects from another address of the loopback network.
func from(t *testing.T, source string, to netip.AddrPort) *raw {
	t.Helper()
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(source), 0))}
	conn, err := d.DialContext(t.Context(), "tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{t, conn}
	t.Cleanup(r.close)
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLimitsNameTheirValuesSourcesAndUse(t *testing.T) {
	t.Parallel()
	b := limited(t, nil, "max.connections=50", "listener.name.client.max.connections=3", "max.connections.per.ip=40", "max.connections.per.ip.overrides=127.0.0.9:2")
	me := dial(t, b.Addr("INSIDE"))
	setConfig(me, "", "max.connection.creation.rate", "1000")
	setConfig(me, "1", "max.ssl.connections", "7")
	setIPRate(me, nil, 500)
	setIPRate(me, new("127.0.0.8"), 100)
	ask[*kmsg.ApiVersionsResponse](dial(t, b.Addr("CLIENT")), versionsRequest(3))
	for range 2 {
		ask[*kmsg.ApiVersionsResponse](from(t, "127.0.0.9", b.Addr("CLIENT")), versionsRequest(3))
	}
	resp := describeLimits(me, nil)
	if resp.ErrorCode != 0 || resp.NodeID != 1 || resp.Time == 0 {
		t.Fatalf("answer = %+v", resp)
	}
	for _, want := range []protocol.DescribeLimitsResponseLimit{
		{Name: "max.connections", Scope: "broker", Value: 50, Source: "static", SetBy: "max.connections", InUse: 4, Unit: "connections"},
		{Name: "max.ssl.connections", Scope: "broker", Value: 7, Source: "dynamic broker", SetBy: "max.ssl.connections", Unit: "connections"},
		{Name: "max.connection.creation.rate", Scope: "broker", Value: 1000, Source: "dynamic default", SetBy: "max.connection.creation.rate", Unit: "connections/s"},
		{Name: "max.connections", ListenerName: "CLIENT", Scope: "listener", Value: 3, Source: "static", SetBy: "listener.name.client.max.connections", InUse: 3, Unit: "connections"},
		// The trap: the broker's value is also the limit of a listener that has none, and of the protected one too.
		{Name: "max.connections", ListenerName: "INSIDE", Scope: "listener", Value: 50, Source: "static", SetBy: "max.connections", InUse: 1, Unit: "connections"},
		{Name: "max.connection.creation.rate", ListenerName: "INSIDE", Scope: "listener", Value: 1000, Source: "dynamic default", SetBy: "max.connection.creation.rate", Unit: "connections/s"},
		{Name: "max.connections.per.ip", Scope: "address", Value: 40, Source: "static", SetBy: "max.connections.per.ip", InUse: 2, Unit: "connections"},
		{Name: "connection_creation_rate", Scope: "address", Value: 500, Source: "client quota", SetBy: "connection_creation_rate", Unit: "connections/s"},
	} {
		got := limitRow(resp, want.Name, want.ListenerName)
		want.CountedBy, want.Exactness = "broker", "exact"
		if want.Unit == "connections/s" { // what it is depends on time
			if got.InUse < 0 || got.InUse > 4 {
				t.Errorf("%s of %q has %v in use", want.Name, want.ListenerName, got.InUse)
			}
			want.InUse = got.InUse
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s of %q = %+v, want %+v", want.Name, want.ListenerName, got, want)
		}
	}
	inside, outside := limitListener(resp, "INSIDE"), limitListener(resp, "CLIENT")
	if !inside.Protected || inside.TLS || inside.SecurityProtocol != "PLAINTEXT" || inside.Port != int32(b.Addr("INSIDE").Port()) || inside.Next.Outcome != "admitted" {
		t.Errorf("INSIDE = %+v", inside)
	}
	if outside.Protected || outside.Connections != 3 || outside.Next.Outcome != "waits for a slot" || outside.Next.Limit != "max.connections" || outside.Next.Scope != "listener" {
		t.Errorf("CLIENT = %+v", outside)
	}
	if q := outside.AcceptQueue; q.Exactness != "exact" || q.CountedBy != "kernel" || q.Backlog != 50 || q.Length != 0 || q.Overflows != -1 {
		t.Errorf("accept queue = %+v", q)
	}
	if resp.AddressCount != 3 || len(resp.Addresses) != 3 {
		t.Fatalf("addresses = %+v, want three", resp.Addresses)
	}
	for i, want := range []string{"127.0.0.9 2 2 500 false closed at once", "127.0.0.1 2 40 500 false admitted", "127.0.0.8 0 40 100 true admitted"} {
		a := resp.Addresses[i]
		if got := fmt.Sprint(a.Address, " ", a.Connections, " ", a.Max, " ", a.Rate, " ", a.RateOwn, " ", a.Next.Outcome); got != want {
			t.Errorf("address %d = %s, want %s", i, got, want)
		}
	}
	if a := resp.Addresses[0]; a.MaxSetBy != "max.connections.per.ip.overrides" || a.MaxSource != "static" || a.RateSource != "client quota" || a.Next.Limit != "max.connections.per.ip" {
		t.Errorf("address with a limit of its own = %+v", a)
	}

	one := describeLimits(me, func(req *protocol.DescribeLimitsRequest) {
		req.ListenerFilter, req.AddressFilter, req.AddressLimit = new("client"), new("127.0.0.8/31"), 1
	})
	if len(one.Listeners) != 1 || limitRow(one, "max.connections", "INSIDE").Name != "" || limitRow(one, "max.connections", "").Name == "" ||
		one.AddressCount != 2 || len(one.Addresses) != 1 || one.Addresses[0].Address != "127.0.0.9" {
		t.Errorf("filtered = %+v", one)
	}
	for name, set := range map[string]func(*protocol.DescribeLimitsRequest){
		"address": func(req *protocol.DescribeLimitsRequest) { req.AddressFilter = new("here\x1b[2J") },
		"number":  func(req *protocol.DescribeLimitsRequest) { req.AddressLimit = -1 },
	} {
		if got := describeLimits(me, set); got.ErrorCode != kerr.InvalidRequest.Code || got.ErrorMessage == nil || len(got.Limits) != 0 {
			t.Errorf("wrong %s = %+v, want INVALID_REQUEST and why", name, got)
		}
	}
}

func TestLimitsShowWhoWaitsAndWhatTheNextOneMeets(t *testing.T) {
	t.Parallel()
	b := limited(t, nil, "listener.name.client.max.connections=2")
	me := dial(t, b.Addr("INSIDE"))
	var inside []*raw
	for range 2 {
		r := dial(t, b.Addr("CLIENT"))
		ask[*kmsg.ApiVersionsResponse](r, versionsRequest(3))
		inside = append(inside, r)
	}
	began := time.Now().UnixMilli()
	var waiting []*raw
	for range 3 {
		r := from(t, "127.0.0.5", b.Addr("CLIENT"))
		r.request(versionsRequest(3))
		waiting = append(waiting, r)
	}
	var l protocol.DescribeLimitsResponseListener
	eventually(t, "the acceptor holds one", func() bool {
		l = limitListener(describeLimits(me, nil), "CLIENT")
		return l.Held != nil
	})
	if h := l.Held; h.Address != "127.0.0.5" || h.WaitsFor != "max.connections" || h.Scope != "listener" || h.DelayMillis != 0 || h.Since < began-1000 || h.Since > time.Now().UnixMilli() {
		t.Errorf("held = %+v", h)
	}
	if l.AcceptQueue.Length != 2 || l.Connections != 2 || l.Next.Outcome != "waits for a slot" {
		t.Errorf("listener = %+v, want two that wait to be accepted", l)
	}

	shut := protocol.NewPtrCloseConnectionsRequest()
	shut.ListenerFilter, shut.Most = new("CLIENT"), 1
	ask[*kmsg.ApiVersionsResponse](inside[0], versionsRequest(3)) // the other one is now least recently active
	closed := ask[*protocol.CloseConnectionsResponse](me, shut)
	if closed.ErrorCode != 0 || closed.Matched != 2 || len(closed.Connections) != 1 || closed.Connections[0].ClientPort != int32(local(inside[1]).Port()) || closed.Pending != 0 {
		t.Errorf("closed = %+v, want the least recently active one", closed)
	}
	inside[1].closed("a connection that was closed on request")
	if _, err := waiting[0].answer(false); err != nil {
		t.Errorf("who waited first is not served: %v", err)
	}
	timeline := protocol.NewPtrDescribeConnectionTimelineRequest()
	timeline.AddressFilter, timeline.ClientPort = new("127.0.0.5"), int32(local(waiting[0]).Port())
	got := ask[*protocol.DescribeConnectionTimelineResponse](me, timeline)
	if len(got.Connections) != 1 || got.Matched != 1 {
		t.Fatalf("timelines = %+v, want that of who waited", got)
	}
	slot := event(got.Connections[0], protocol.EventWaitedSlot)
	if slot.Limit != "max.connections" || slot.Scope != "listener" || slot.Micros <= 0 || event(got.Connections[0], protocol.EventWaitedRate).Name != "" {
		t.Errorf("events = %+v, want a wait for the listener's slot alone", got.Connections[0].Events)
	}
}

func event(c protocol.DescribeConnectionTimelineResponseConnection, name string) protocol.DescribeConnectionTimelineResponseEvent {
	for _, e := range c.Events {
		if e.Name == name {
			return e
		}
	}
	return protocol.DescribeConnectionTimelineResponseEvent{}
}

// A rate of one a second, measured over two samples, holds the third connection; who comes after it waits longer.
func TestLimitsTellForHowLongARateHoldsTheNextOne(t *testing.T) {
	t.Parallel()
	b := limited(t, nil, "quota.window.num=2", "quota.window.size.seconds=5", "listener.name.client.max.connection.creation.rate=1")
	me := dial(t, b.Addr("INSIDE"))
	var next protocol.DescribeLimitsResponseNext
	eventually(t, "a rate is used up", func() bool {
		next = limitListener(describeLimits(me, nil), "CLIENT").Next
		if next.Outcome == "admitted" {
			ask[*kmsg.ApiVersionsResponse](dial(t, b.Addr("CLIENT")), versionsRequest(3))
		}
		return next.Outcome != "admitted"
	})
	if next.Outcome != "waits for a rate" || next.Limit != "max.connection.creation.rate" || next.Scope != "listener" || next.Millis <= 0 || next.Millis > 5000 {
		t.Errorf("next = %+v", next)
	}
	waiter := dial(t, b.Addr("CLIENT"))
	waiter.request(versionsRequest(3))
	if _, err := waiter.answer(false); err != nil {
		t.Fatal(err)
	}
	timeline := protocol.NewPtrDescribeConnectionTimelineRequest()
	timeline.ClientPort = int32(local(waiter).Port())
	got := ask[*protocol.DescribeConnectionTimelineResponse](me, timeline).Connections[0]
	rate := event(got, protocol.EventWaitedRate)
	if rate.Limit != "max.connection.creation.rate" || rate.Scope != "listener" || rate.Micros <= 0 || event(got, protocol.EventWaitedSlot).Name != "" {
		t.Errorf("events = %+v, want a wait for the listener's rate alone", got.Events)
	}
}

// KAFKA-10023: a wait may go on after the rate's delay, and each part is its own limit's.
func TestAWaitForARateAndThenForASlotIsToldApart(t *testing.T) {
	t.Parallel()
	b := limited(t, nil, "quota.window.num=2", "listener.name.client.max.connections=1", "listener.name.client.max.connection.creation.rate=1")
	me := dial(t, b.Addr("INSIDE"))
	first := dial(t, b.Addr("CLIENT"))
	ask[*kmsg.ApiVersionsResponse](first, versionsRequest(3))
	waiter := dial(t, b.Addr("CLIENT"))
	waiter.request(versionsRequest(3))
	var for1, for2 *protocol.DescribeLimitsResponseHeld
	eventually(t, "it waits for the rate, then for the slot", func() bool {
		h := limitListener(describeLimits(me, nil), "CLIENT").Held
		switch {
		case h == nil:
		case h.WaitsFor == "max.connection.creation.rate":
			for1 = h
		default:
			for2 = h
		}
		return for2 != nil
	})
	if for1 == nil || for1.DelayMillis <= 0 || for1.DelayMillis > 1000 || for2.WaitsFor != "max.connections" || for2.Since != for1.Since {
		t.Fatalf("held for %+v, then for %+v", for1, for2)
	}
	first.close()
	if _, err := waiter.answer(false); err != nil {
		t.Fatal(err)
	}
	timeline := protocol.NewPtrDescribeConnectionTimelineRequest()
	timeline.ClientPort = int32(local(waiter).Port())
	got := ask[*protocol.DescribeConnectionTimelineResponse](me, timeline).Connections[0]
	rate, slot := event(got, protocol.EventWaitedRate), event(got, protocol.EventWaitedSlot)
	if rate.Limit != "max.connection.creation.rate" || rate.Micros != for1.DelayMillis*1000 || slot.Limit != "max.connections" || slot.Scope != "listener" ||
		slot.Micros <= 0 || slot.At-slot.Micros != rate.At {
		t.Errorf("events = %+v, want %d ms for the rate, then the rest for the slot", got.Events, for1.DelayMillis)
	}
}

func TestAnAddressThatConnectsTooOftenIsToldOfBothWays(t *testing.T) {
	t.Parallel()
	b := limited(t, nil, "quota.window.num=2")
	me := dial(t, b.Addr("INSIDE"))
	setIPRate(me, new("127.0.0.6"), 1)
	for range 3 {
		_ = from(t, "127.0.0.6", b.Addr("CLIENT"))
	}
	eventually(t, "one is held", func() bool { return limitListener(describeLimits(me, nil), "CLIENT").Throttled > 0 })
	resp := describeLimits(me, func(req *protocol.DescribeLimitsRequest) { req.AddressFilter = new("127.0.0.6") })
	if len(resp.Addresses) != 1 || resp.Addresses[0].Next.Outcome != "held, then closed" || resp.Addresses[0].Next.Limit != "connection_creation_rate" ||
		resp.Addresses[0].Next.Millis <= 0 || resp.Addresses[0].Rate != 1 || !resp.Addresses[0].RateOwn {
		t.Errorf("address = %+v", resp.Addresses)
	}
	timeline := protocol.NewPtrDescribeConnectionTimelineRequest()
	timeline.AddressFilter = new("127.0.0.6")
	var refused []protocol.DescribeConnectionTimelineResponseConnection
	eventually(t, "it is closed", func() bool {
		refused = slices.DeleteFunc(ask[*protocol.DescribeConnectionTimelineResponse](me, timeline).Connections,
			func(c protocol.DescribeConnectionTimelineResponseConnection) bool { return c.State != "refused" })
		return len(refused) > 0
	})
	end := event(refused[0], protocol.EventClosed)
	if refused[0].ConnectionID != "" || refused[0].Reason != "per_ip_rate" || refused[0].ClosedBy != "broker" || end.Limit != "connection_creation_rate" ||
		end.Scope != "address" || end.Micros <= 0 || event(refused[0], protocol.EventAdmitted).Name != "" {
		t.Errorf("refused = %+v", refused[0])
	}
}

// logged is a log that a test reads.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// line is the last line that has text in it; "" without one.
func (l *logged) line(text string) (last string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, text) {
			last = line
		}
	}
	return last
}

func TestConnectionsAreClosedOnRequestAndNoOthers(t *testing.T) {
	t.Parallel()
	log := &logged{}
	b := limited(t, []broker.Option{broker.WithLog(slog.New(slog.NewTextHandler(log, nil)))})
	me := dial(t, b.Addr("INSIDE"))
	var clients []*raw
	for i := range 6 {
		r := from(t, "127.0.0."+strconv.Itoa(10+i), b.Addr("CLIENT"))
		ask[*kmsg.ApiVersionsResponse](r, versionsRequest(3))
		clients = append(clients, r)
	}
	shut := func(set func(*protocol.CloseConnectionsRequest)) *protocol.CloseConnectionsResponse {
		req := protocol.NewPtrCloseConnectionsRequest()
		set(req)
		return ask[*protocol.CloseConnectionsResponse](me, req)
	}
	open := func() int { return len(list(me, nil, nil, nil).Connections) }

	for name, set := range map[string]func(*protocol.CloseConnectionsRequest){
		"nothing":           func(*protocol.CloseConnectionsRequest) {},
		"a mistaken filter": func(req *protocol.CloseConnectionsRequest) { req.AddressFilter, req.All = new("10.0.0"), true },
		"a negative number": func(req *protocol.CloseConnectionsRequest) { req.All, req.Most = true, -1 },
	} {
		if got := shut(set); got.ErrorCode != kerr.InvalidRequest.Code || got.ErrorMessage == nil || len(got.Connections) != 0 {
			t.Errorf("%s = %+v, want INVALID_REQUEST and why", name, got)
		}
	}
	would := shut(func(req *protocol.CloseConnectionsRequest) { req.All, req.ValidateOnly = true, true })
	if len(would.Connections) != 6 || !would.Spared || would.Matched != 6 || open() != 7 || log.line("closed connections on request") != "" {
		t.Errorf("what would be closed = %+v, and %d are open; want six of seven, and all still open", would, open())
	}

	got := shut(func(req *protocol.CloseConnectionsRequest) { req.AddressFilter = new("127.0.0.10/31") })
	if len(got.Connections) != 2 || got.Spared || got.Pending != 0 || open() != 5 {
		t.Errorf("closed by address = %+v, and %d are open; want two closed, five left", got, open())
	}
	clients[0].closed("the first")
	clients[1].closed("the second")
	line := log.line("closed connections on request")
	for _, want := range []string{"principal=User:ANONYMOUS", "host=127.0.0.1", "closed=2", "address_filter=127.0.0.10/31", got.Connections[0].ConnectionID} {
		if !strings.Contains(line, want) {
			t.Errorf("log = %q, want %q in it", line, want)
		}
	}

	id := would.Connections[2].ConnectionID
	byID := shut(func(req *protocol.CloseConnectionsRequest) {
		req.ConnectionIDs = []string{id, "gone\x1b[2J", id, got.Connections[0].ConnectionID, "gone\x1b[2J"}
	})
	if len(byID.Connections) != 1 || byID.Connections[0].ConnectionID != id || !slices.Equal(byID.NotFound, []string{"gone\x1b[2J", got.Connections[0].ConnectionID}) || open() != 4 {
		t.Errorf("closed by id = %+v", byID)
	}
	if other := shut(func(req *protocol.CloseConnectionsRequest) {
		req.ConnectionIDs, req.PrincipalFilter = []string{would.Connections[3].ConnectionID}, new("User:bob")
	}); len(other.Connections) != 0 || len(other.NotFound) != 1 || open() != 4 {
		t.Errorf("an id whose connection is another's = %+v, want it left", other)
	}

	if all := shut(func(req *protocol.CloseConnectionsRequest) { req.All = true }); len(all.Connections) != 3 || !all.Spared || open() != 1 {
		t.Errorf("all = %+v, want three closed and the one that asks left", all)
	}
	own := list(me, nil, nil, nil).Connections[0].ConnectionID
	suicide := shut(func(req *protocol.CloseConnectionsRequest) { req.ConnectionIDs = []string{own} })
	if len(suicide.Connections) != 1 || suicide.Pending != 1 {
		t.Errorf("the connection that asks, by its id = %+v, want it to be closed after the answer", suicide)
	}
	me.closed("the connection that named itself")

	me = dial(t, b.Addr("INSIDE"))
	timeline := protocol.NewPtrDescribeConnectionTimelineRequest()
	timeline.ConnectionID = &id
	killed := ask[*protocol.DescribeConnectionTimelineResponse](me, timeline).Connections[0]
	if killed.Reason != "killed" || killed.ClosedBy != "operator" || killed.ClosedFor != "User:ANONYMOUS from 127.0.0.1" || killed.State != "closed" {
		t.Errorf("timeline = %+v, want to know who closed it", killed)
	}
	names := []string{}
	for _, e := range killed.Events {
		names = append(names, e.Name)
		if e.CountedBy == "" || e.Exactness == "" || e.At == 0 {
			t.Errorf("event without a source: %+v", e)
		}
	}
	if want := []string{"established", "accepted", "admitted", "registered", "first request", "last active", "closed"}; !slices.Equal(names, want) {
		t.Errorf("events = %q, want %q", names, want)
	}
	if killed.Events[0].CountedBy != "kernel" || killed.Events[1].CountedBy != "broker" {
		t.Errorf("events = %+v, want the first one of the kernel", killed.Events)
	}
}

// Where the kernel's own programs count, a timeline begins with what they saw, and says so.
func TestATimelineHasTheKernelsTimeWhereTheKernelSawIt(t *testing.T) {
	t.Parallel()
	kernel := &countingKernel{report: func(ports []uint16) broker.KernelReport {
		r := broker.KernelReport{Mode: broker.KernelModeSockDiag, Why: "polled"}
		for _, port := range ports {
			r.Ports = append(r.Ports, broker.KernelPort{Port: port, Overflows: 4})
		}
		return r
	}}
	b := limited(t, []broker.Option{broker.WithKernel(kernel)})
	me := dial(t, b.Addr("INSIDE"))
	first := func() (protocol.DescribeConnectionTimelineResponseEvent, string) {
		req := protocol.NewPtrDescribeConnectionTimelineRequest()
		req.ClientPort = int32(local(me).Port())
		resp := ask[*protocol.DescribeConnectionTimelineResponse](me, req)
		return resp.Connections[0].Events[0], resp.KernelWhy
	}
	if q := limitListener(describeLimits(me, nil), "CLIENT").AcceptQueue; q.Overflows != 4 || q.Exactness != "exact" {
		t.Errorf("accept queue = %+v, want the overflows that the kernel counted", q)
	}
	if e, why := first(); e.Name != "established" || e.CountedBy != "kernel" || e.Exactness != "rounded" || why != "polled" {
		t.Errorf("unseen = %+v, %q, want it rounded and why", e, why)
	}
	page := ask[*protocol.DescribeConnectionsResponse](me, protocol.NewPtrDescribeConnectionsRequest())
	seen := time.Now().Add(-time.Hour)
	kernel.mu.Lock()
	kernel.sockets = []broker.KernelSocket{{Cookie: page.Connections[0].SocketCookie, Since: seen}}
	kernel.mu.Unlock()
	if e, why := first(); e.At != seen.UnixMicro() || e.Exactness != "exact" || why != "" {
		t.Errorf("seen = %+v, %q, want the kernel's time, exact", e, why)
	}
}

func TestATimelineHasTheStagesThatItsListenerHas(t *testing.T) {
	t.Parallel()
	names := func(r *raw) (all []string) {
		req := protocol.NewPtrDescribeConnectionTimelineRequest()
		req.ClientPort = int32(local(r).Port())
		resp := ask[*protocol.DescribeConnectionTimelineResponse](r, req)
		for i := range resp.Connections[0].Events {
			all = append(all, resp.Connections[0].Events[i].Name)
		}
		return all
	}
	p := newPKI(t)
	b := start(t, fourProtocols(t, p))
	for what, test := range map[string]struct {
		of   *raw
		want []string
	}{
		"TLS": {
			overTLS(t, dial(t, b.Addr("SSL_V4")), p.client(t, pkix.Name{CommonName: "bob", OrganizationalUnit: []string{"apps"}})),
			[]string{"established", "accepted", "admitted", "registered", "tls done", "first request", "last active"},
		},
		"SASL": {
			login(t, authorizedBroker(t), "root"),
			[]string{"established", "accepted", "admitted", "registered", "authenticated", "first request", "last active"},
		},
	} {
		got := names(test.of)
		// Bytes may have come before a stage was over that they ended.
		slices.Sort(got)
		slices.Sort(test.want)
		if !slices.Equal(got, test.want) {
			t.Errorf("events over %s = %q, want %q", what, got, test.want)
		}
	}
}

func TestTimelinesOfTheLatestConnectionsComeLastAndAreBounded(t *testing.T) {
	t.Parallel()
	b := limited(t, nil)
	me := dial(t, b.Addr("INSIDE"))
	for range 12 {
		r := dial(t, b.Addr("CLIENT"))
		ask[*kmsg.ApiVersionsResponse](r, versionsRequest(3))
		r.close()
	}
	last := dial(t, b.Addr("CLIENT"))
	ask[*kmsg.ApiVersionsResponse](last, versionsRequest(3))
	lines := func(set func(*protocol.DescribeConnectionTimelineRequest)) *protocol.DescribeConnectionTimelineResponse {
		req := protocol.NewPtrDescribeConnectionTimelineRequest()
		if set != nil {
			set(req)
		}
		return ask[*protocol.DescribeConnectionTimelineResponse](me, req)
	}
	var all *protocol.DescribeConnectionTimelineResponse
	eventually(t, "all are remembered, and the closes seen", func() bool {
		all = lines(nil)
		return all.Matched == 14 && len(all.Connections) == 10 && all.Connections[8].ClosedBy != ""
	})
	if all.Connections[9].ClientPort != int32(local(last).Port()) || all.Connections[9].State != "open" || all.Connections[8].ClosedBy != "client" {
		t.Errorf("latest = %+v, want ten and the open one last", all)
	}
	if got := lines(func(req *protocol.DescribeConnectionTimelineRequest) {
		req.ListenerFilter, req.Most = new("client"), 1000
	}); got.Matched != 13 || len(got.Connections) != 13 {
		t.Errorf("of the listener = %d of %d, want 13", len(got.Connections), got.Matched)
	}
	for name, set := range map[string]func(*protocol.DescribeConnectionTimelineRequest){
		"address": func(req *protocol.DescribeConnectionTimelineRequest) { req.AddressFilter = new("") },
		"port":    func(req *protocol.DescribeConnectionTimelineRequest) { req.ClientPort = 65536 },
		"number":  func(req *protocol.DescribeConnectionTimelineRequest) { req.Most = -1 },
	} {
		if got := lines(set); got.ErrorCode != kerr.InvalidRequest.Code || got.ErrorMessage == nil || len(got.Connections) != 0 {
			t.Errorf("wrong %s = %+v, want INVALID_REQUEST and why", name, got)
		}
	}
	if got := lines(func(req *protocol.DescribeConnectionTimelineRequest) { req.ConnectionID = new("\x00nobody") }); got.ErrorCode != 0 || got.Matched != 0 {
		t.Errorf("an id that nobody has = %+v, want nothing", got)
	}
}

func TestRequestsAboutLimitsNeedRightsOnTheClusterAndRefusalsTellNothing(t *testing.T) {
	t.Parallel()
	addr := authorizedBroker(t)
	root := &authority{raw: login(t, addr, "root")}
	alice, victim := login(t, addr, "alice"), login(t, addr, "bob")
	id := find(list(root.raw, nil, nil, nil).Connections, victim).ConnectionID
	limits, timeline, shut := protocol.NewPtrDescribeLimitsRequest(), protocol.NewPtrDescribeConnectionTimelineRequest(), protocol.NewPtrCloseConnectionsRequest()
	shut.ConnectionIDs, shut.ValidateOnly = []string{id}, true
	for _, test := range []struct {
		rules          string
		describe, kill bool
	}{
		{"", false, false},
		{"allow DESCRIBE_CONFIGS Cluster kafka-cluster; allow CLUSTER_ACTION Cluster kafka-cluster", false, false},
		{"allow DESCRIBE Cluster kafka-cluster", true, false},
		{"allow ALTER Cluster kafka-cluster", true, true},
		{"allow ALTER Cluster kafka-cluster; deny DESCRIBE Cluster kafka-cluster", false, true},
		{"allow ALL Cluster kafka-cluster; deny ALTER Cluster kafka-cluster", true, false},
		{"allow ALL Cluster kafka-cluster", true, true},
	} {
		root.rules(rules(t, test.rules))
		l, tl, c := ask[*protocol.DescribeLimitsResponse](alice, limits), ask[*protocol.DescribeConnectionTimelineResponse](alice, timeline), ask[*protocol.CloseConnectionsResponse](alice, shut)
		if test.describe != (l.ErrorCode == 0 && len(l.Limits) > 0) || test.describe != (tl.ErrorCode == 0 && len(tl.Connections) > 0) || test.kill != (c.ErrorCode == 0 && len(c.Connections) == 1) {
			t.Errorf("with %q: limits %+v, timeline %+v, close %+v", test.rules, l, tl, c)
		}
		// A refusal is 31 and nothing else: not even the broker's id or whether there is such a connection.
		if !test.describe && (!refused(l) || !refused(tl)) {
			t.Errorf("with %q: refused with %+v and %+v", test.rules, l, tl)
		}
		if !test.kill && !refused(c) {
			t.Errorf("with %q: refused with %+v", test.rules, c)
		}
	}
	root.rules(rules(t, "allow DESCRIBE Cluster kafka-cluster"))
	shut.ValidateOnly = false
	ask[*protocol.CloseConnectionsResponse](alice, shut)
	if find(list(root.raw, nil, nil, nil).Connections, victim) == nil {
		t.Error("who may not has closed a connection")
	}
}

// refused tells whether an answer is that to who has no right to ask, and has nothing beside.
func refused(resp kmsg.Response) bool {
	code, text := kerr.ClusterAuthorizationFailed.Code, new("Cluster authorization failed.")
	want := resp.RequestKind().ResponseKind()
	switch r := want.(type) {
	case *protocol.DescribeLimitsResponse:
		r.ErrorCode, r.ErrorMessage = code, text
	case *protocol.DescribeConnectionTimelineResponse:
		r.ErrorCode, r.ErrorMessage = code, text
	case *protocol.CloseConnectionsResponse:
		r.ErrorCode, r.ErrorMessage = code, text
	}
	return bytes.Equal(resp.AppendTo(nil), want.AppendTo(nil))
}
