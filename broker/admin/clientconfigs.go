package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

// ClientConfigsFilter selects clients by who they are; a nil field lets all pass.
type ClientConfigsFilter struct {
	Principal *string // Type:name
	Address   *string // an IP address or a CIDR prefix
	ClientID  *string
	Listener  *string
	Software  *string // name
	Ambiguous bool    // only clients that cannot be told apart and have pushed different configurations
	Entries   bool    // with what is in the configurations
	Nodes     []int32 // ask these brokers only; empty asks all
}

// DescribeClientConfigs asks every broker which configurations its clients have pushed to it (KIP-1324), page after page. There is
// one answer of each broker, with all of its clients in the order of their ids; the error is as that of
// [Client.ListClientConnections], and UNSUPPORTED_VERSION of a broker that keeps none. It needs DESCRIBE on the cluster.
func (c *Client) DescribeClientConfigs(ctx context.Context, f ClientConfigsFilter) ([]*protocol.DescribeClientConfigsResponse, error) {
	return fanOut(ctx, c, f.Nodes, func(ctx context.Context, b *kgo.Broker, _ int32) ([]*protocol.DescribeClientConfigsResponse, error) {
		var all *protocol.DescribeClientConfigsResponse
		for next := int64(0); ; next = all.NextID {
			req := protocol.NewPtrDescribeClientConfigsRequest()
			req.SetKey(c.keys.DescribeClientConfigs)
			req.PrincipalFilter, req.AddressFilter, req.ClientIDFilter = f.Principal, f.Address, f.ClientID
			req.ListenerFilter, req.SoftwareFilter = f.Listener, f.Software
			req.AmbiguousOnly, req.WithEntries, req.AfterID = f.Ambiguous, f.Entries, next
			page, err := ask[*protocol.DescribeClientConfigsResponse](ctx, c, b, req)
			if err != nil {
				return nil, err
			}
			if err := errorOf(page.ErrorCode, page.ErrorMessage); err != nil {
				return nil, err
			}
			if all != nil {
				page.Clients = append(all.Clients, page.Clients...)
			}
			all = page
			if page.NextID <= next { // the last one, or a broker that would have us go round in circles
				return []*protocol.DescribeClientConfigsResponse{all}, nil
			}
		}
	})
}
