package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

// MetadataFilter selects what [Client.DescribeMetadata] asks for.
type MetadataFilter struct {
	Hash  bool    // also the hash of all metadata, which may take brokers a while
	Nodes []int32 // ask these brokers only; empty asks all
}

// DescribeMetadata asks every broker how it is with the metadata of its cluster, and which brokers it knows. Answers are sorted by
// node; the error is as that of [Client.ListClientConnections]. It needs DESCRIBE on the cluster.
func (c *Client) DescribeMetadata(ctx context.Context, f MetadataFilter) ([]*protocol.DescribeMetadataResponse, error) {
	return fanOut(ctx, c, f.Nodes, func(ctx context.Context, b *kgo.Broker, _ int32) ([]*protocol.DescribeMetadataResponse, error) {
		req := protocol.NewPtrDescribeMetadataRequest()
		req.SetKey(c.keys.DescribeMetadata)
		req.WithHash = f.Hash
		resp, err := ask[*protocol.DescribeMetadataResponse](ctx, c, b, req)
		if err != nil {
			return nil, err
		}
		if err := errorOf(resp.ErrorCode, resp.ErrorMessage); err != nil {
			return nil, err
		}
		return []*protocol.DescribeMetadataResponse{resp}, nil
	})
}
