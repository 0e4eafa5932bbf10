package api

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/brokerlab/brokerlab/broker/internal/network"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// describeClosedConnections tells of the connections that ended of late, each with its reason. What is remembered is
// bounded, so that the answer is too, and has no pages.
//
// Versions: 0.
// Needs: DESCRIBE on CLUSTER.
// Errors: CLUSTER_AUTHORIZATION_FAILED; INVALID_REQUEST for an address filter that is neither address nor prefix, a reason that
// is none, or a negative sequence. ErrorMessage says which.
// Differs from Kafka: Kafka has no such API.
func describeClosedConnections(
	_ context.Context, q *call, req *protocol.DescribeClosedConnectionsRequest,
) (*protocol.DescribeClosedConnectionsResponse, error) {
	resp := protocol.NewPtrDescribeClosedConnectionsResponse()
	resp.NodeID = q.server.o.NodeID
	f, why := describedFilter(filter{principal: req.PrincipalFilter, software: req.SoftwareFilter}, req.AddressFilter, req.ListenerFilter, req.ProtocolFilter)
	only := ""
	if req.ReasonFilter != nil && why == "" {
		only = strings.ToLower(*req.ReasonFilter)
		if !slices.ContainsFunc(network.Reasons(), func(r network.Reason) bool { return r.String() == only }) {
			why = "reason filter is none of the reasons why connections end: " + *req.ReasonFilter
		}
	}
	if req.AfterSequence < 0 {
		why = "a sequence number is not negative"
	}
	if why != "" {
		resp.ErrorCode, resp.ErrorMessage = kerr.InvalidRequest.Code, &why
		return resp, nil
	}
	all, latest, complete := q.server.o.Closed(uint64(req.AfterSequence))
	resp.Incarnation, resp.Sequence, resp.Capacity, resp.Time = q.server.incarnation, int64(latest), network.ClosedKept, time.Now().UnixMilli()
	if !complete.IsZero() {
		resp.CompleteSince = complete.UnixMilli()
	}
	for i := range all {
		if c := &all[i]; f.passesClosed(c) && (only == "" || c.Reason.String() == only) {
			resp.Connections = append(resp.Connections, closedRow(c))
		}
	}
	q.audit("DescribeClosedConnections", len(resp.Connections))
	return resp, nil
}

func closedRow(c *network.Closed) protocol.DescribeClosedConnectionsResponseConnection {
	row := protocol.DescribeClosedConnectionsResponseConnection{
		Sequence:         int64(c.Sequence),
		ConnectionID:     c.ID(),
		ClientAddress:    network.JavaAddr(c.Remote.Addr()),
		ClientPort:       int32(c.Remote.Port()),
		ListenerName:     c.Listener.Name,
		SecurityProtocol: c.Listener.Protocol.String(),
		SoftwareName:     c.Software,
		SoftwareVersion:  c.SoftwareVersion,
		ClientID:         nonEmpty(c.ClientID),
		ConnectedSince:   c.Since.UnixMilli(),
		ClosedAt:         c.At.UnixMilli(),
		Reason:           c.Reason.String(),
		BytesIn:          c.BytesIn,
		BytesOut:         c.BytesOut,
	}
	row.Principal, row.PrincipalType = whoWas(c)
	return row
}
