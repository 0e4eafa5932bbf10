package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

// TimelineFilter selects connections, open or not; a nil field lets all pass.
type TimelineFilter struct {
	ID       *string // as listings show it
	Address  *string // an IP address or a CIDR prefix
	Port     int32   // the client's; 0: any
	Listener *string
	Most     int32   // of each broker so many at most, those that came last; 0: the broker's choice
	Nodes    []int32 // ask these brokers only; empty asks all
}

// DescribeConnectionTimeline asks every broker what happened to connections, step by step: to open ones, to those that ended of
// late, and to sockets that were refused. Answers are sorted by node, the connection that came last at the end of each; the error
// is as that of [Client.ListClientConnections]. It needs DESCRIBE on the cluster.
func (c *Client) DescribeConnectionTimeline(ctx context.Context, f TimelineFilter) ([]*protocol.DescribeConnectionTimelineResponse, error) {
	return fanOut(ctx, c, f.Nodes, func(ctx context.Context, b *kgo.Broker, _ int32) ([]*protocol.DescribeConnectionTimelineResponse, error) {
		req := protocol.NewPtrDescribeConnectionTimelineRequest()
		req.SetKey(c.keys.DescribeTimeline)
		req.ConnectionID, req.AddressFilter, req.ClientPort = f.ID, f.Address, f.Port
		req.ListenerFilter, req.Most = f.Listener, f.Most
		resp, err := ask[*protocol.DescribeConnectionTimelineResponse](ctx, c, b, req)
		if err != nil {
			return nil, err
		}
		if err := errorOf(resp.ErrorCode, resp.ErrorMessage); err != nil {
			return nil, err
		}
		return []*protocol.DescribeConnectionTimelineResponse{resp}, nil
	})
}
