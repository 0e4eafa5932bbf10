package api

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/brokerlab/brokerlab/broker/internal/network"
	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/broker/quota"
)

// How many connections DescribeConnectionTimeline tells of.
const (
	usualTimelines = 10
	mostTimelines  = 1_000
)

// describeConnectionTimeline tells what happened to connections, step by step, from the end of TCP's handshake on: open ones, those
// that ended of late, and sockets that were refused.
//
// Versions: 0.
// Needs: DESCRIBE on CLUSTER.
// Errors: CLUSTER_AUTHORIZATION_FAILED; INVALID_REQUEST for an address filter that is neither address nor prefix, a port that is
// none, or a negative number of connections. ErrorMessage says which.
// Differs from Kafka: Kafka has no such API.
func describeConnectionTimeline(
	ctx context.Context, q *call, req *protocol.DescribeConnectionTimelineRequest,
) (*protocol.DescribeConnectionTimelineResponse, error) {
	resp := protocol.NewPtrDescribeConnectionTimelineResponse()
	resp.NodeID = q.server.o.NodeID
	f, why := describedFilter(filter{}, req.AddressFilter, req.ListenerFilter, nil)
	const ports = 1 << 16
	switch {
	case req.ClientPort < 0 || req.ClientPort >= ports:
		why = "a port is between 1 and 65535, and 0 is any"
	case req.Most < 0:
		why = "a number of connections is not negative"
	}
	if why != "" {
		resp.ErrorCode, resp.ErrorMessage = kerr.InvalidRequest.Code, &why
		return resp, nil
	}
	now := time.Now()
	lives, complete := q.server.lives(req, &f)
	if !complete.IsZero() {
		resp.CompleteSince = complete.UnixMilli()
	}
	resp.Time, resp.Matched = now.UnixMicro(), int64(len(lives))
	most := int(req.Most)
	if most == 0 {
		most = usualTimelines
	}
	lives = lives[max(len(lives)-min(most, mostTimelines), 0):]
	resp.KernelWhy = q.server.askKernel(ctx, lives)
	for i := range lives {
		resp.Connections = append(resp.Connections, q.server.lifeOf(&lives[i], now))
	}
	q.audit("DescribeConnectionTimeline", len(resp.Connections))
	return resp, nil
}

// life is a connection that is open or has ended: one of both is nil.
type life struct {
	open   *network.Conn
	ended  *network.Closed
	stages network.Timeline
	exact  bool // stages.Established is of the kernel's own programs
}

// askKernel puts the kernel's own time of the establishment of open connections in the place of what it said at their accept, which
// is rounded. It returns why it could not.
func (s *Server) askKernel(ctx context.Context, lives []life) (why string) {
	if s.o.Kernel == nil {
		return "kernel accounting is off"
	}
	ports := map[uint16]map[uint64]time.Time{}
	for i := range lives {
		c := lives[i].open
		if c == nil {
			why = "the kernel forgets connections that have ended"
			continue
		}
		port := c.Local().Port()
		if ports[port] == nil {
			known, err := s.o.Kernel.Established(ctx, port)
			if err != nil {
				return err.Error()
			}
			ports[port] = known
		}
		if at, known := ports[port][c.Cookie()]; known {
			lives[i].stages.Established, lives[i].exact = at, true
		} else {
			_, why = s.o.Kernel.Source(ctx)
		}
	}
	return why
}

// lives finds the connections that match, in the order in which they were accepted.
func (s *Server) lives(req *protocol.DescribeConnectionTimelineRequest, f *filter) (all []life, complete time.Time) {
	open := map[string]int{} // by id: where in all
	for c := range s.o.Connections() {
		if !f.passesAt(c.Remote().Addr(), c.Listener()) || req.ClientPort != 0 && int32(c.Remote().Port()) != req.ClientPort {
			continue
		}
		id := c.ID()
		if req.ConnectionID != nil && id != *req.ConnectionID {
			continue
		}
		open[id] = len(all)
		all = append(all, life{open: c, stages: c.Timeline()})
	}
	closed, _, complete := s.o.Closed(0)
	for i := range closed {
		c := &closed[i]
		if !f.passesAt(c.Remote.Addr(), c.Listener) || req.ClientPort != 0 && int32(c.Remote.Port()) != req.ClientPort {
			continue
		}
		if req.ConnectionID != nil && c.ID() != *req.ConnectionID {
			continue
		}
		ended := life{ended: c, stages: c.Timeline()}
		if at, both := open[c.ID()]; both { // it ended after it was listed
			all[at] = ended
			continue
		}
		all = append(all, ended)
	}
	slices.SortStableFunc(all, func(a, b life) int { return a.stages.Accepted.Compare(b.stages.Accepted) })
	return all, complete
}

// lifeOf is one connection's row.
func (s *Server) lifeOf(l *life, now time.Time) protocol.DescribeConnectionTimelineResponseConnection {
	var row protocol.DescribeConnectionTimelineResponseConnection
	if c := l.open; c != nil {
		row = protocol.DescribeConnectionTimelineResponseConnection{
			ConnectionID: c.ID(), ClientAddress: network.JavaAddr(c.Remote().Addr()), ClientPort: int32(c.Remote().Port()),
			ListenerName: c.Listener().Name, SecurityProtocol: c.Listener().Protocol.String(), State: stateOf(c),
		}
		row.Principal, _ = who(c)
		if id := c.Identity(); id != nil {
			row.SoftwareName, row.SoftwareVersion, row.ClientID = id.Software, id.SoftwareVersion, nonEmpty(id.ClientID)
		}
	} else {
		c := l.ended
		row = protocol.DescribeConnectionTimelineResponseConnection{
			ConnectionID: c.ID(), ClientAddress: network.JavaAddr(c.Remote.Addr()), ClientPort: int32(c.Remote.Port()),
			ListenerName: c.Listener.Name, SecurityProtocol: c.Listener.Protocol.String(),
			SoftwareName: c.Software, SoftwareVersion: c.SoftwareVersion, ClientID: nonEmpty(c.ClientID),
			State: protocol.StateClosed, Reason: c.Reason.String(), ClosedBy: closedBy(c.Reason),
		}
		row.Principal, _ = whoWas(c)
		if c.Refused {
			row.State = protocol.StateRefused
		}
		if c.Reason == network.ReasonKilled {
			row.ClosedFor = s.closedFor.of(row.ConnectionID)
		}
	}
	row.Events = events(l, now)
	return row
}

// closedBy is whose doing the end of a connection was.
func closedBy(r network.Reason) string {
	switch r {
	case network.ReasonClientClosed, network.ReasonClientReset:
		return protocol.ClosedByClient
	case network.ReasonKilled:
		return protocol.ClosedByOperator
	default:
		return protocol.ClosedByBroker
	}
}

// causeOf is the limit that a connection was closed for.
func causeOf(r network.Reason) quota.Limit {
	switch r {
	case network.ReasonEvictedConnections:
		return quota.MaxConnections
	case network.ReasonEvictedSSLConnections:
		return quota.MaxSSLConnections
	case network.ReasonPerIPLimit:
		return quota.MaxConnectionsPerIP
	case network.ReasonPerIPRate:
		return quota.IPConnectionRate
	default:
		return quota.None
	}
}

// events lists what happened to a connection, in order of time.
func events(l *life, now time.Time) []protocol.DescribeConnectionTimelineResponseEvent {
	var all []protocol.DescribeConnectionTimelineResponseEvent
	add := func(name string, at time.Time, e protocol.DescribeConnectionTimelineResponseEvent) {
		if at.IsZero() {
			return
		}
		e.Name, e.At = name, at.UnixMicro()
		e.CountedBy = cmp.Or(e.CountedBy, protocol.CountedByBroker)
		e.Exactness = cmp.Or(e.Exactness, protocol.ExactnessExact)
		all = append(all, e)
	}
	var none protocol.DescribeConnectionTimelineResponseEvent
	st, w := &l.stages, l.stages.Waited
	established := protocol.DescribeConnectionTimelineResponseEvent{CountedBy: protocol.CountedByKernel, Exactness: protocol.ExactnessRounded}
	if l.exact {
		established.Exactness = protocol.ExactnessExact
	}
	if st.Established.After(st.Accepted) { // two clocks
		st.Established = st.Accepted
	}
	add(protocol.EventEstablished, st.Established, established)
	add(protocol.EventAccepted, st.Accepted, none)
	if w.Rate > 0 {
		waited := protocol.DescribeConnectionTimelineResponseEvent{Micros: w.Rate.Microseconds(), Limit: quota.ConnectionRate.String()}
		if w.Slot == 0 { // else the limit that is known is the one that held it last
			waited.Limit, waited.Scope = limitName(w.Limit), scopeOf(w.Limit)
		}
		add(protocol.EventWaitedRate, st.Accepted.Add(w.Rate), waited)
	}
	if w.Slot > 0 {
		add(protocol.EventWaitedSlot, st.Accepted.Add(w.Rate+w.Slot), protocol.DescribeConnectionTimelineResponseEvent{
			Micros: w.Slot.Microseconds(), Limit: limitName(w.Limit), Scope: scopeOf(w.Limit),
		})
	}
	add(protocol.EventAdmitted, st.Admitted, none)
	add(protocol.EventRegistered, st.Registered, none)
	add(protocol.EventHandshake, st.HandshakeDone, none)
	add(protocol.EventAuthenticated, st.Authenticated, none)
	add(protocol.EventFirstRequest, st.FirstRequest, none)
	last := protocol.DescribeConnectionTimelineResponseEvent{}
	until := now
	if l.ended != nil {
		until = l.ended.At
	}
	if idle := until.Sub(st.LastActive); idle > 0 {
		last.Micros = idle.Microseconds()
	}
	add(protocol.EventLastActive, st.LastActive, last)
	if l.ended != nil {
		add(protocol.EventClosed, st.Closed, end(l))
	}
	slices.SortStableFunc(all, func(a, b protocol.DescribeConnectionTimelineResponseEvent) int { return cmp.Compare(a.At, b.At) })
	return all
}

// end is what is known of a connection's end beside its time.
func end(l *life) protocol.DescribeConnectionTimelineResponseEvent {
	cause := causeOf(l.ended.Reason)
	e := protocol.DescribeConnectionTimelineResponseEvent{Limit: limitName(cause), Scope: scopeOf(cause), Detail: l.ended.Reason.String()}
	if cause == quota.IPConnectionRate { // it was held that long
		w := l.stages.Waited
		e.Micros = l.stages.Closed.Sub(l.stages.Accepted.Add(w.Rate + w.Slot)).Microseconds()
	}
	return e
}
