package admin

import (
	"context"
	"errors"
	"fmt"

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

// ErrNotOffered is inside a [BrokerError] of a broker that does not have the API that was asked for.
var ErrNotOffered = errors.New("not offered by the broker")

// BrokerError is why one broker did not answer.
type BrokerError struct {
	NodeID int32
	Addr   string // host:port as the cluster's metadata has it
	Err    error
}

func (e *BrokerError) Error() string {
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
}

// ListClientConnections asks every broker for its open connections (KIP-1329). Rows are sorted by node and connection
// id. The error joins one [*BrokerError] for each broker that did not answer; the rows of the others are valid beside it.
func (c *Client) ListClientConnections(ctx context.Context, f ListFilter) ([]ClientConnection, error) {
	return nil, errors.ErrUnsupported
}

// Connection is one connection of DescribeConnections and the broker that has it.
type Connection struct {
	NodeID       int32
	KernelSource string // where Kernel's facts are from: full, sock_diag or off
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
}

// DescribeConnections asks every broker for all it knows of its open connections, page after page. Sorting and errors
// are those of [Client.ListClientConnections].
func (c *Client) DescribeConnections(ctx context.Context, f DescribeFilter) ([]Connection, error) {
	return nil, errors.ErrUnsupported
}

// DescribeKernel asks every broker for the kernel's count of its connections and its own. Answers are sorted by node;
// the error is as that of [Client.ListClientConnections].
func (c *Client) DescribeKernel(ctx context.Context, listener *string, sources bool) ([]*protocol.DescribeKernelResponse, error) {
	return nil, errors.ErrUnsupported
}
