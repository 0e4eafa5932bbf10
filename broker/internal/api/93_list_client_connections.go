package api

import (
	"context"
	"log/slog"

	"github.com/brokerlab/brokerlab/broker/internal/network"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// usualRow is the size of most rows of a listing, in bytes.
const usualRow = 128

// manyRows is how long a listing is worth a warning: nothing bounds a response of version 0.
const manyRows = 50_000

// listClientConnections lists the connections that this broker has open (KIP-1329), the caller's
// own included.
//
// Versions: 0.
// Needs: DESCRIBE on CLUSTER.
// Errors: CLUSTER_AUTHORIZATION_FAILED. An address filter that is none matches nothing.
// Differs from Kafka: Kafka has no such API. Where the proposal leaves a choice: addresses are
// compared as addresses and listeners in any case; software is empty until the client has named
// itself; ConnectedSince is real.
func listClientConnections(_ context.Context, q *call, req *protocol.ListClientConnectionsRequest) (*listing, error) {
	f := filter{principal: req.PrincipalFilter, listener: upper(req.ListenerFilter)}
	if req.ClientAddressFilter != nil {
		only, ok := address(*req.ClientAddressFilter)
		f.address, f.nowhere = &only, !ok
	}
	resp := &listing{ListClientConnectionsResponse: protocol.NewPtrListClientConnectionsResponse()}
	for c := range q.server.o.Connections() {
		if f.passes(c) {
			resp.connections = append(resp.connections, c)
		}
	}
	q.size = len(resp.connections) * usualRow
	q.audit("ListClientConnections", len(resp.connections))
	return resp, nil
}

// listing is a response whose rows are made while it is written: 100,000 of them exist once, as bytes.
type listing struct {
	*protocol.ListClientConnectionsResponse
	connections []*network.Conn
}

// AppendTo writes the response's body.
func (l *listing) AppendTo(dst []byte) []byte {
	return l.AppendRows(dst, len(l.connections), func(yield func(*protocol.ListClientConnectionsResponseConnection) bool) {
		var row protocol.ListClientConnectionsResponseConnection
		for _, c := range l.connections {
			row = listed(c)
			if !yield(&row) {
				return
			}
		}
	})
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
