package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

// ClosedFilter selects connections that have ended; a nil field lets all pass.
type ClosedFilter struct {
	Principal *string // Type:name
	Address   *string // an IP address or a CIDR prefix
	Listener  *string
	Protocol  *string
	Software  *string         // name
	Reason    *string         // one of the closed list, in any case
	After     map[int32]int64 // by node: only those after this sequence number
	Nodes     []int32         // ask these brokers only; empty asks all
}

// DescribeClosedConnections asks every broker for the connections that ended of late and why. Each answers with as many
// as it remembers, the latest at the end. Answers are sorted by node; the error is as that of
// [Client.ListClientConnections].
func (c *Client) DescribeClosedConnections(ctx context.Context, f ClosedFilter) ([]*protocol.DescribeClosedConnectionsResponse, error) {
	call := func(ctx context.Context, b *kgo.Broker, node int32) ([]*protocol.DescribeClosedConnectionsResponse, error) {
		req := protocol.NewPtrDescribeClosedConnectionsRequest()
		req.SetKey(c.keys.DescribeClosed)
		req.PrincipalFilter, req.AddressFilter, req.ListenerFilter = f.Principal, f.Address, f.Listener
		req.ProtocolFilter, req.SoftwareFilter, req.ReasonFilter = f.Protocol, f.Software, f.Reason
		req.AfterSequence = f.After[node]
		resp, err := ask[*protocol.DescribeClosedConnectionsResponse](ctx, c, b, req)
		if err != nil {
			return nil, err
		}
		if err := errorOf(resp.ErrorCode, resp.ErrorMessage); err != nil {
			return nil, err
		}
		return []*protocol.DescribeClosedConnectionsResponse{resp}, nil
	}
	return fanOut(ctx, c, f.Nodes, call)
}
