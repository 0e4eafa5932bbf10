package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

// CloseFilter selects connections to close: those that pass every filter that is not nil and, where there are ids, have one of
// them. The zero value selects nothing.
type CloseFilter struct {
	Principal *string // Type:name
	Address   *string // an IP address or a CIDR prefix
	Listener  *string
	Protocol  *string
	Software  *string  // name
	IDs       []string // as listings show them
	All       bool     // every connection is meant where nothing else selects
	Most      int32    // of each broker so many at most, those that were least recently active; 0: all
	DryRun    bool     // close nothing, only tell what would be closed
	Nodes     []int32  // ask these brokers only; empty asks all
}

// CloseConnections has every broker close those of its connections that f selects, and tells which they were. When it returns
// their slots are free, but for those that an answer counts as Pending. The connections that this client asks by are left, unless
// f names them by their ids. Answers are sorted by node; the error is as that of [Client.ListClientConnections]: what a broker
// without an answer has closed is not known, and asking again does no harm.
//
// It needs ALTER on the cluster, also for a dry run. The broker's log says who has closed what.
func (c *Client) CloseConnections(ctx context.Context, f CloseFilter) ([]*protocol.CloseConnectionsResponse, error) {
	return fanOut(ctx, c, f.Nodes, func(ctx context.Context, b *kgo.Broker, _ int32) ([]*protocol.CloseConnectionsResponse, error) {
		req := protocol.NewPtrCloseConnectionsRequest()
		req.SetKey(c.keys.CloseConnections)
		req.PrincipalFilter, req.AddressFilter, req.ListenerFilter = f.Principal, f.Address, f.Listener
		req.ProtocolFilter, req.SoftwareFilter = f.Protocol, f.Software
		req.ConnectionIDs, req.All, req.Most, req.ValidateOnly = f.IDs, f.All, f.Most, f.DryRun
		resp, err := ask[*protocol.CloseConnectionsResponse](ctx, c, b, req)
		if err != nil {
			return nil, err
		}
		if err := errorOf(resp.ErrorCode, resp.ErrorMessage); err != nil {
			return nil, err
		}
		return []*protocol.CloseConnectionsResponse{resp}, nil
	})
}
