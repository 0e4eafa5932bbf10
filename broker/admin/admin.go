package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

// Client makes calls through a kgo client, which the caller keeps and closes. Safe for concurrent use.
type Client struct {
	cl   *kgo.Client
	keys protocol.Keys
}

// Option changes a [Client].
type Option func(*Client)

// WithKeys is for brokers that were told to use other API keys. Give the same keys to [Versions].
func WithKeys(keys protocol.Keys) Option { return func(c *Client) { c.keys = keys } }

// New returns a client that makes its calls through cl, which needs the option [Versions].
func New(cl *kgo.Client, opts ...Option) *Client {
	c := &Client{cl: cl, keys: protocol.DefaultKeys()}
	for _, o := range opts {
		o(c)
	}
	return c
}

// ErrNotOffered is inside the [BrokerError] of a broker that does not have the API that was asked for.
var ErrNotOffered = errors.New("not offered by the broker")

// ErrFenced is inside the [BrokerError] of a broker that the cluster leads nobody to: it has stopped, or is out of touch.
var ErrFenced = errors.New("is fenced: it has stopped, or is cut off from its cluster")

// BrokerError is why one broker did not answer, or not completely.
type BrokerError struct {
	NodeID int32
	Addr   string // host:port as the cluster's metadata has it; "" when the cluster does not name the node
	Err    error
}

func (e *BrokerError) Error() string {
	if e.Addr == "" {
		return fmt.Sprintf("broker %d: %v", e.NodeID, e.Err)
	}
	return fmt.Sprintf("broker %d (%s): %v", e.NodeID, e.Addr, e.Err)
}

func (e *BrokerError) Unwrap() error { return e.Err }

// ClientConnection is one connection of ListClientConnections and the broker that has it.
type ClientConnection struct {
	NodeID int32
	protocol.ListClientConnectionsResponseConnection
}

// ListFilter selects connections; a nil field lets all pass.
type ListFilter struct {
	Principal     *string // Type:name
	ClientAddress *string // an IP address in any spelling
	Listener      *string
	Nodes         []int32 // ask these brokers only; empty asks all
}

// ListClientConnections asks every broker for its open connections (KIP-1329). Rows are sorted by node and connection
// id. The error joins one [BrokerError] for each broker that did not answer; the rows of the others are valid beside
// it. An error of another kind means that the cluster's brokers could not even be found.
func (c *Client) ListClientConnections(ctx context.Context, f ListFilter) ([]ClientConnection, error) {
	return fanOut(ctx, c, f.Nodes, func(ctx context.Context, b *kgo.Broker, node int32) ([]ClientConnection, error) {
		req := protocol.NewPtrListClientConnectionsRequest()
		req.SetKey(c.keys.ListClientConnections)
		req.PrincipalFilter, req.ClientAddressFilter, req.ListenerFilter = f.Principal, f.ClientAddress, f.Listener
		resp, err := ask[*protocol.ListClientConnectionsResponse](ctx, c, b, req)
		if err != nil {
			return nil, err
		}
		if err := errorOf(resp.ErrorCode, nil); err != nil {
			return nil, err
		}
		rows := make([]ClientConnection, len(resp.Connections))
		for i := range resp.Connections {
			rows[i] = ClientConnection{NodeID: node, ListClientConnectionsResponseConnection: resp.Connections[i]}
		}
		slices.SortStableFunc(rows, func(a, b ClientConnection) int { return cmp.Compare(a.ConnectionID, b.ConnectionID) })
		return rows, nil
	})
}

// Connection is one connection of DescribeConnections and the broker that has it.
type Connection struct {
	NodeID       int32
	KernelSource string // where Kernel's facts are from: full, sock_diag or off
	KernelWhy    string // why there are none, or why they are not exact; "" when nothing is missing
	protocol.DescribeConnectionsResponseConnection
}

// DescribeFilter selects connections; a nil field lets all pass.
type DescribeFilter struct {
	Principal *string // Type:name
	Address   *string // an IP address or a CIDR prefix
	Listener  *string
	Protocol  *string
	Software  *string // name
	Kernel    bool    // ask the kernel too
	PageSize  int32   // 0: the broker's choice
	Nodes     []int32 // ask these brokers only; empty asks all
}

// DescribeConnections asks every broker for all it knows of its open connections, page after page. Each connection comes
// once, however many open and close meanwhile. Sorting and errors are those of [Client.ListClientConnections]; the rows
// of a broker that failed between two pages are kept beside its error.
func (c *Client) DescribeConnections(ctx context.Context, f DescribeFilter) ([]Connection, error) {
	return fanOut(ctx, c, f.Nodes, func(ctx context.Context, b *kgo.Broker, node int32) ([]Connection, error) {
		rows, err := c.describe(ctx, b, node, f)
		slices.SortStableFunc(rows, func(a, b Connection) int { return cmp.Compare(a.ConnectionID, b.ConnectionID) })
		return rows, err
	})
}

// describe reads one broker's pages.
func (c *Client) describe(ctx context.Context, b *kgo.Broker, node int32, f DescribeFilter) ([]Connection, error) {
	req := protocol.NewPtrDescribeConnectionsRequest()
	req.SetKey(c.keys.DescribeConnections)
	req.PrincipalFilter, req.AddressFilter, req.ListenerFilter = f.Principal, f.Address, f.Listener
	req.ProtocolFilter, req.SoftwareFilter = f.Protocol, f.Software
	req.Kernel, req.PageSize = f.Kernel, f.PageSize
	var rows []Connection
	for {
		resp, err := ask[*protocol.DescribeConnectionsResponse](ctx, c, b, req)
		if err != nil {
			return rows, err
		}
		if err := errorOf(resp.ErrorCode, resp.ErrorMessage); err != nil {
			return rows, err
		}
		for i := range resp.Connections {
			rows = append(rows, Connection{
				NodeID: node, KernelSource: resp.KernelSource, KernelWhy: resp.KernelWhy,
				DescribeConnectionsResponseConnection: resp.Connections[i],
			})
		}
		if resp.NextCursor == nil {
			return rows, nil
		}
		if slices.Equal(resp.NextCursor, req.Cursor) {
			return rows, errors.New("the list has no end: a page is its own next one")
		}
		req.Cursor = resp.NextCursor
	}
}

// KernelFilter selects what [Client.DescribeKernel] asks for.
type KernelFilter struct {
	Listener *string // nil asks for all
	Sources  bool    // also the count of every client address
	Nodes    []int32 // ask these brokers only; empty asks all
}

// DescribeKernel asks every broker for the kernel's count of its connections and its own. Answers are sorted by node;
// the error is as that of [Client.ListClientConnections].
func (c *Client) DescribeKernel(ctx context.Context, f KernelFilter) ([]*protocol.DescribeKernelResponse, error) {
	return fanOut(ctx, c, f.Nodes, func(ctx context.Context, b *kgo.Broker, _ int32) ([]*protocol.DescribeKernelResponse, error) {
		req := protocol.NewPtrDescribeKernelRequest()
		req.SetKey(c.keys.DescribeKernel)
		req.ListenerFilter, req.Sources = f.Listener, f.Sources
		resp, err := ask[*protocol.DescribeKernelResponse](ctx, c, b, req)
		if err != nil {
			return nil, err
		}
		if err := errorOf(resp.ErrorCode, resp.ErrorMessage); err != nil {
			return nil, err
		}
		return []*protocol.DescribeKernelResponse{resp}, nil
	})
}

func hostPort(host string, port int32) string { return net.JoinHostPort(host, strconv.Itoa(int(port))) }
