package api

import (
	"context"
	"log/slog"

	"github.com/brokerlab/brokerlab/broker/internal/network"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// usualRow is the size of most rows of a listing, in bytes.
const usualRow = 176

// manyRows is how long a listing is worth a warning: nothing bounds a response of version 0.
const manyRows = 50_000

// listClientConnections lists the connections that this broker has open (KIP-1329), the caller's
// own included.
//
// Versions: 0.
// Needs: DESCRIBE on CLUSTER.
// Differs from Kafka: Kafka has no such API. Where the proposal leaves a choice: addresses are
// compared as addresses and listeners in any case; software is empty until the client has named
// itself; ConnectedSince is real.
func listClientConnections(_ context.Context, q *call, req *protocol.ListClientConnectionsRequest) (*protocol.ListClientConnectionsResponse, error) {
	resp := protocol.NewPtrListClientConnectionsResponse()
	f := filter{principal: req.PrincipalFilter, listener: upper(req.ListenerFilter)}
	if req.ClientAddressFilter != nil {
		only, ok := address(*req.ClientAddressFilter)
		f.address, f.nowhere = &only, !ok
	}
	if f == (filter{}) { // all of them: growing a list of 100,000 costs more than filling it
		resp.Connections = make([]protocol.ListClientConnectionsResponseConnection, 0, q.server.connections())
	}
	for c := range q.server.o.Connections() {
		if f.passes(c) {
			resp.Connections = append(resp.Connections, listed(c))
		}
	}
	q.size = len(resp.Connections) * usualRow
	q.audit("ListClientConnections", len(resp.Connections))
	return resp, nil
}

func listed(c *network.Conn) protocol.ListClientConnectionsResponseConnection {
	row := protocol.ListClientConnectionsResponseConnection{
		ConnectionID:     c.ID(),
		ClientAddress:    network.JavaAddr(c.Remote().Addr()),
		ClientPort:       int32(c.Remote().Port()),
		ListenerName:     c.Listener().Name,
		SecurityProtocol: c.Listener().Protocol.String(),
		ConnectedSince:   c.Since().UnixMilli(),
	}
	row.Principal, row.PrincipalType = who(c)
	if id := c.Identity(); id != nil {
		row.SoftwareName, row.SoftwareVersion = id.Software, id.SoftwareVersion
	}
	return row
}

// audit notes who looked at the connections of others.
func (q *call) audit(api string, rows int) {
	level := slog.LevelInfo
	if rows > manyRows {
		level = slog.LevelWarn
	}
	q.server.o.Log.Log(q.server.ctx, level, "listed connections", slog.String("principal", principal(q.conn.Identity())),
		slog.String("host", network.JavaAddr(q.conn.Remote().Addr())), slog.String("request", api), slog.Int("rows", rows))
}
