package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

// LimitsFilter selects what [Client.DescribeLimits] asks for; a nil field lets all pass.
type LimitsFilter struct {
	Listener  *string
	Address   *string // client addresses: an IP address or a CIDR prefix
	Addresses int32   // how many of them, the busiest first; 0: the broker's choice
	Nodes     []int32 // ask these brokers only; empty asks all
}

// DescribeLimits asks every broker for its limits on connections: what each is and who has set it, how far it is used, who waits for
// it, and what happens to the next connection. Answers are sorted by node; the error is as that of [Client.ListClientConnections].
// It needs DESCRIBE on the cluster.
func (c *Client) DescribeLimits(ctx context.Context, f LimitsFilter) ([]*protocol.DescribeLimitsResponse, error) {
	return fanOut(ctx, c, f.Nodes, func(ctx context.Context, b *kgo.Broker, _ int32) ([]*protocol.DescribeLimitsResponse, error) {
		req := protocol.NewPtrDescribeLimitsRequest()
		req.SetKey(c.keys.DescribeLimits)
		req.ListenerFilter, req.AddressFilter, req.AddressLimit = f.Listener, f.Address, f.Addresses
		resp, err := ask[*protocol.DescribeLimitsResponse](ctx, c, b, req)
		if err != nil {
			return nil, err
		}
		if err := errorOf(resp.ErrorCode, resp.ErrorMessage); err != nil {
			return nil, err
		}
		return []*protocol.DescribeLimitsResponse{resp}, nil
	})
}
