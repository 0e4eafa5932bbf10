package api

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/brokerlab/brokerlab/broker/internal/network"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// closingPatience is how long an answer waits for connections that were told to close. Their loops take a moment, unless one of
// them has much to do.
const closingPatience = time.Second

// closeConnections closes connections that pass the filters, so that their slots are free.
//
// Versions: 0.
// Needs: ALTER on CLUSTER.
// Errors: CLUSTER_AUTHORIZATION_FAILED; INVALID_REQUEST for an address filter that is neither address nor prefix, a negative number
// of connections, and for a request that has neither filter nor id and does not say All. ErrorMessage says which.
// Differs from Kafka: Kafka has no such API.
func closeConnections(ctx context.Context, q *call, req *protocol.CloseConnectionsRequest) (*protocol.CloseConnectionsResponse, error) {
	resp := protocol.NewPtrCloseConnectionsResponse()
	resp.NodeID = q.server.o.NodeID
	f, why := describedFilter(filter{principal: req.PrincipalFilter, software: req.SoftwareFilter}, req.AddressFilter, req.ListenerFilter, req.ProtocolFilter)
	switch {
	case req.Most < 0:
		why = "a number of connections is not negative"
	case f == filter{} && len(req.ConnectionIDs) == 0 && !req.All && why == "":
		why = "neither a filter nor an id: to close every connection, say so"
	}
	if why != "" {
		resp.ErrorCode, resp.ErrorMessage = kerr.InvalidRequest.Code, &why
		return resp, nil
	}
	chosen := q.choose(req, resp, &f)
	now := time.Now()
	for _, c := range chosen {
		resp.Connections = append(resp.Connections, closing(c, now))
	}
	if !req.ValidateOnly {
		q.close(ctx, req, resp, chosen)
	}
	resp.Time = time.Now().UnixMilli()
	return resp, nil
}

// choose finds the connections that are meant, and tells resp of them and of those that are not there.
func (q *call) choose(req *protocol.CloseConnectionsRequest, resp *protocol.CloseConnectionsResponse, f *filter) []*network.Conn {
	missing := make(map[string]bool, len(req.ConnectionIDs))
	for _, id := range req.ConnectionIDs {
		missing[id] = true
	}
	var chosen []*network.Conn
	for c := range q.server.o.Connections() {
		if !f.passes(c) {
			continue
		}
		if len(req.ConnectionIDs) > 0 {
			id := c.ID()
			if !missing[id] {
				continue
			}
			delete(missing, id)
		} else if c == q.conn {
			resp.Spared = true
			continue
		}
		chosen = append(chosen, c)
	}
	for _, id := range req.ConnectionIDs {
		if missing[id] {
			delete(missing, id)
			resp.NotFound = append(resp.NotFound, id)
		}
	}
	resp.Matched = int64(len(chosen))
	if most := int(req.Most); most > 0 && len(chosen) > most {
		active := make(map[*network.Conn]time.Time, len(chosen)) // they move while they are sorted
		for _, c := range chosen {
			active[c] = c.LastActive()
		}
		slices.SortFunc(chosen, func(a, b *network.Conn) int {
			return cmp.Or(active[a].Compare(active[b]), cmp.Compare(a.Slot(), b.Slot()))
		})
		chosen = chosen[:most]
	}
	return chosen
}

func closing(c *network.Conn, now time.Time) protocol.CloseConnectionsResponseConnection {
	listed := listed(c)
	row := protocol.CloseConnectionsResponseConnection{
		ConnectionID: listed.ConnectionID, Principal: listed.Principal, PrincipalType: listed.PrincipalType,
		ClientAddress: listed.ClientAddress, ClientPort: listed.ClientPort, ListenerName: listed.ListenerName, SecurityProtocol: listed.SecurityProtocol,
		SoftwareName: listed.SoftwareName, SoftwareVersion: listed.SoftwareVersion, ConnectedSince: listed.ConnectedSince,
		IdleMillis: max(now.Sub(c.LastActive()).Milliseconds(), 0),
	}
	if id := c.Identity(); id != nil {
		row.ClientID = nonEmpty(id.ClientID)
	}
	return row
}

// close ends the chosen connections and waits until they have. The one that asks ends after the answer.
func (q *call) close(ctx context.Context, req *protocol.CloseConnectionsRequest, resp *protocol.CloseConnectionsResponse, chosen []*network.Conn) {
	who := principal(q.conn.Identity()) + " from " + network.JavaAddr(q.conn.Remote().Addr())
	pending := make(map[*network.Conn]bool, len(chosen))
	for i, c := range chosen {
		q.server.closedFor.add(resp.Connections[i].ConnectionID, who)
		if c == q.conn {
			q.closing, q.closeAfter = true, network.ReasonKilled
			q.session.closing.Store(true)
			resp.Pending++
			continue
		}
		pending[c] = true
		c.Close(network.ReasonKilled)
	}
	q.logClosing(req, resp)
	resp.Pending += int64(q.server.awaitEnd(ctx, pending))
}

// awaitEnd waits until connections are not open any more, and returns how many still are.
func (s *Server) awaitEnd(ctx context.Context, pending map[*network.Conn]bool) int {
	deadline := time.NewTimer(closingPatience)
	defer deadline.Stop()
	for pause := time.Millisecond; len(pending) > 0; pause *= 2 {
		select {
		case <-ctx.Done():
			return len(pending)
		case <-deadline.C:
			return len(pending)
		case <-time.After(pause):
		}
		open := make(map[*network.Conn]bool, len(pending))
		for c := range s.o.Connections() {
			if pending[c] {
				open[c] = true
			}
		}
		pending = open
	}
	return 0
}

// logClosing notes who has closed the connections of others.
func (q *call) logClosing(req *protocol.CloseConnectionsRequest, resp *protocol.CloseConnectionsResponse) {
	const most = 20
	ids := make([]string, 0, most)
	for i := range resp.Connections[:min(len(resp.Connections), most)] {
		ids = append(ids, resp.Connections[i].ConnectionID)
	}
	attrs := []slog.Attr{
		slog.String("principal", principal(q.conn.Identity())), slog.String("host", network.JavaAddr(q.conn.Remote().Addr())),
		slog.String("request", q.row.name), slog.Int("closed", len(resp.Connections)), slog.Int64("matched", resp.Matched),
	}
	for name, text := range map[string]*string{
		"principal_filter": req.PrincipalFilter, "address_filter": req.AddressFilter, "listener_filter": req.ListenerFilter,
		"protocol_filter": req.ProtocolFilter, "software_filter": req.SoftwareFilter,
	} {
		if text != nil {
			attrs = append(attrs, slog.String(name, *text))
		}
	}
	if len(req.ConnectionIDs) > 0 {
		attrs = append(attrs, slog.Int("ids", len(req.ConnectionIDs)))
	}
	slices.SortStableFunc(attrs[5:], func(a, b slog.Attr) int { return cmp.Compare(a.Key, b.Key) })
	attrs = append(attrs, slog.Any("connections", ids))
	if len(resp.Connections) > most {
		attrs = append(attrs, slog.Int("not_named", len(resp.Connections)-most))
	}
	q.server.o.Log.LogAttrs(q.server.ctx, slog.LevelWarn, "closed connections on request", attrs...)
}

// closers remembers for whom connections were closed, as long as the network remembers the connections. The zero value is empty.
// Safe for concurrent use.
type closers struct {
	mu   sync.Mutex        // guards what follows
	who  map[string]string // by connection id
	ids  []string          // in the order in which they were added; a ring once it is full
	next int
}

func (c *closers) add(id, who string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.who == nil {
		c.who = map[string]string{}
	}
	if _, twice := c.who[id]; twice {
		return // the first to ask
	}
	c.who[id] = who
	if len(c.ids) < network.ClosedKept {
		c.ids = append(c.ids, id)
		return
	}
	delete(c.who, c.ids[c.next])
	c.ids[c.next] = id
	c.next = (c.next + 1) % len(c.ids)
}

// of is for whom a connection was closed; "" when that is not known.
func (c *closers) of(id string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.who[id]
}
