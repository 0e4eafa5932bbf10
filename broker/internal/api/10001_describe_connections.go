package api

import (
	"context"
	"crypto/tls"
	"maps"
	"net/netip"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/brokerlab/brokerlab/broker/internal/network"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// Page sizes of DescribeConnections.
const (
	usualPage   = 1_000
	longestPage = 10_000
)

// describeConnections tells all that is known of the open connections, page by page.
//
// Versions: 0.
// Needs: DESCRIBE on CLUSTER.
// Errors: CLUSTER_AUTHORIZATION_FAILED; INVALID_REQUEST for an address filter that is neither address nor prefix, and for a
// cursor that is none or is of before a restart. ErrorMessage says which.
// Differs from Kafka: Kafka has no such API.
func describeConnections(ctx context.Context, q *call, req *protocol.DescribeConnectionsRequest) (*protocol.DescribeConnectionsResponse, error) {
	resp := protocol.NewPtrDescribeConnectionsResponse()
	resp.NodeID = q.server.o.NodeID
	refuse := func(message string) (*protocol.DescribeConnectionsResponse, error) {
		resp.ErrorCode, resp.ErrorMessage = kerr.InvalidRequest.Code, &message
		return resp, nil
	}
	f, why := describedFilter(filter{principal: req.PrincipalFilter, software: req.SoftwareFilter}, req.AddressFilter, req.ListenerFilter, req.ProtocolFilter)
	if why != "" {
		return refuse(why)
	}
	var from uint64
	if req.Cursor != nil {
		cursor, err := protocol.ParseCursor(req.Cursor)
		if err != nil {
			return refuse(err.Error())
		}
		if cursor.Incarnation != q.server.incarnation {
			return refuse("the broker has restarted since the first page: begin again")
		}
		from = cursor.Slot
	}
	size := int(req.PageSize)
	if size <= 0 {
		size = usualPage
	}
	size = min(size, longestPage)
	now := time.Now()
	for c := range q.server.o.Connections() {
		if !f.passes(c) {
			continue
		}
		resp.Total++
		slot := uint64(c.Slot())
		if slot < from {
			continue
		}
		if len(resp.Connections) == size {
			if resp.NextCursor == nil {
				resp.NextCursor = protocol.Cursor{Incarnation: q.server.incarnation, Slot: slot}.AppendTo(nil)
			}
			continue
		}
		resp.Connections = append(resp.Connections, described(c, now))
	}
	q.describeSockets(ctx, req, resp)
	q.audit("DescribeConnections", len(resp.Connections))
	return resp, nil
}

// describedFilter adds to f the filters of a request that are read before they are compared, or says what is wrong with them.
func describedFilter(f filter, where, listener, securityProtocol *string) (_ filter, why string) {
	f.listener, f.protocol = upper(listener), upper(securityProtocol)
	if where == nil {
		return f, ""
	}
	only, ok := address(*where)
	if !ok {
		prefix, err := netip.ParsePrefix(*where)
		if err != nil {
			return filter{}, "address filter is neither an IP address nor a CIDR prefix: " + *where
		}
		only = prefix.Masked()
	}
	f.address = &only
	return f, ""
}

func described(c *network.Conn, now time.Time) protocol.DescribeConnectionsResponseConnection {
	row := protocol.DescribeConnectionsResponseConnection{
		ConnectionID:     c.ID(),
		ClientAddress:    network.JavaAddr(c.Remote().Addr()),
		ClientPort:       int32(c.Remote().Port()),
		LocalAddress:     network.JavaAddr(c.Local().Addr()),
		LocalPort:        int32(c.Local().Port()),
		ListenerName:     c.Listener().Name,
		SecurityProtocol: c.Listener().Protocol.String(),
		State:            stateOf(c),
		ConnectedSince:   c.Since().UnixMilli(),
		LastActive:       c.LastActive().UnixMilli(),
		IdleMillis:       max(now.Sub(c.LastActive()).Milliseconds(), 0),
		BytesIn:          c.BytesIn(),
		BytesOut:         c.BytesOut(),
		SocketCookie:     c.Cookie(),
	}
	row.Principal, row.PrincipalType = who(c)
	id := c.Identity()
	if id != nil {
		row.SoftwareName, row.SoftwareVersion = id.Software, id.SoftwareVersion
		row.ClientID = nonEmpty(id.ClientID)
	}
	if info := c.TLS(); info != nil {
		row.TLS = &protocol.DescribeConnectionsResponseTLS{
			ProtocolVersion: tlsVersion(info.Version), CipherSuite: tls.CipherSuiteName(info.CipherSuite),
			ServerName: info.ServerName, PeerSubject: info.Subject, PeerSerial: info.Serial,
		}
		if !info.NotAfter.IsZero() {
			row.TLS.PeerNotAfter = info.NotAfter.UnixMilli()
		}
	}
	if id != nil && id.Mechanism != "" {
		row.SASL = &protocol.DescribeConnectionsResponseSASL{Mechanism: id.Mechanism, AuthenticatedSince: id.AuthenticatedAt.UnixMilli()}
	}
	return row
}

// tlsVersion is Java's name of a TLS version.
func tlsVersion(v uint16) string {
	switch v {
	case tls.VersionTLS12:
		return "TLSv1.2"
	case tls.VersionTLS13:
		return "TLSv1.3"
	}
	return tls.VersionName(v)
}

func stateOf(c *network.Conn) string {
	ss, ok := c.State().(*session)
	id := c.Identity()
	switch {
	case !ok:
		return protocol.StateHandshaking
	case ss.closing.Load():
		return protocol.StateClosing
	case ss.sasl == nil:
		return protocol.StateOpen
	case id == nil || id.Type == "":
		return protocol.StateAuthenticating
	case ss.reauthenticating.Load():
		return protocol.StateReauthenticating
	}
	return protocol.StateOpen
}

// describeSockets adds what the kernel knows of the sockets of a page.
func (q *call) describeSockets(ctx context.Context, req *protocol.DescribeConnectionsRequest, resp *protocol.DescribeConnectionsResponse) {
	resp.KernelSource = kernelOff
	switch {
	case q.server.o.Kernel == nil:
		resp.KernelWhy = "kernel accounting is off"
		return
	case !req.Kernel:
		resp.KernelWhy = "not asked for"
		return
	}
	resp.KernelSource, resp.KernelWhy = q.server.o.Kernel.Source(ctx)
	known := map[uint64]*protocol.DescribeConnectionsResponseKernel{}
	ports := map[int32]bool{}
	for i := range resp.Connections {
		c := &resp.Connections[i]
		if !ports[c.LocalPort] {
			ports[c.LocalPort] = true
			sockets, err := q.server.o.Kernel.Sockets(ctx, uint16(c.LocalPort))
			if err != nil {
				resp.KernelWhy = err.Error()
				return
			}
			maps.Copy(known, sockets)
		}
		c.Kernel = known[c.SocketCookie]
	}
}
