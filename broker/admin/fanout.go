package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

// fanOut calls each of the cluster's brokers, or those of nodes, at the same time. Rows are in the order of the nodes'
// ids; the error joins one BrokerError for each call that failed, in the same order, and one for each of nodes that is not there.
func fanOut[T any](
	ctx context.Context, c *Client, nodes []int32, call func(context.Context, *kgo.Broker, int32) ([]T, error),
) ([]T, error) {
	brokers, missing, err := c.brokers(ctx, nodes)
	if err != nil {
		return nil, err
	}
	rows, errs := make([][]T, len(brokers)), make([]error, len(brokers))
	var wg sync.WaitGroup
	for i, b := range brokers {
		wg.Go(func() {
			var err error
			rows[i], err = call(ctx, c.cl.Broker(int(b.NodeID)), b.NodeID)
			if err != nil {
				errs[i] = &BrokerError{NodeID: b.NodeID, Addr: hostPort(b.Host, b.Port), Err: err}
			}
		})
	}
	wg.Wait()
	return slices.Concat(rows...), errors.Join(slices.Concat(errs, missing)...)
}

// brokers asks the cluster for its brokers and returns those of nodes, sorted by id, and an error for each
// of nodes that the cluster does not have. No nodes are all.
func (c *Client) brokers(ctx context.Context, nodes []int32) (brokers []kmsg.MetadataResponseBroker, missing []error, err error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none; null would be all
	resp, err := req.RequestWith(ctx, c.cl)
	if err != nil {
		return nil, nil, fmt.Errorf("find the cluster's brokers: %w", err)
	}
	brokers = resp.Brokers
	if len(nodes) > 0 {
		brokers = slices.DeleteFunc(brokers, func(b kmsg.MetadataResponseBroker) bool { return !slices.Contains(nodes, b.NodeID) })
	}
	slices.SortFunc(brokers, func(a, b kmsg.MetadataResponseBroker) int { return cmp.Compare(a.NodeID, b.NodeID) })
	for _, n := range nodes {
		if !slices.ContainsFunc(brokers, func(b kmsg.MetadataResponseBroker) bool { return b.NodeID == n }) {
			missing = append(missing, &BrokerError{NodeID: n, Err: errors.New("the cluster has no such broker")})
		}
	}
	return brokers, missing, nil
}

// ask sends req to b, once more when a connection that had been idle turns out to be closed, and only if b says that it
// knows the request.
func ask[R kmsg.Response](ctx context.Context, c *Client, b *kgo.Broker, req kmsg.Request) (R, error) {
	var none R
	offered, err := c.offers(ctx, b, req.Key())
	if err != nil {
		return none, err
	}
	name := c.keys.Names()[req.Key()]
	const firstOwn = 10001 // keys from here on are brokerlab's own
	if !offered && req.Key() >= firstOwn {
		return none, fmt.Errorf("%s (key %d) is %w: only brokerlab's brokers have it", name, req.Key(), ErrNotOffered)
	}
	if !offered {
		return none, fmt.Errorf("%s (key %d) is %w", name, req.Key(), ErrNotOffered)
	}
	resp, err := request(ctx, b, req)
	if closedByPeer(err) && req.Key() == protocol.DefaultListClientConnectionsKey {
		return none, fmt.Errorf("the broker closed the connection: its key %d may be another API than %s, as it is in Apache Kafka 4.4: %w",
			req.Key(), name, err)
	}
	if err != nil {
		return none, err
	}
	typed, ok := resp.(R)
	if !ok {
		return none, fmt.Errorf("%s was answered by a %T", name, resp)
	}
	return typed, nil
}

// offers asks b for its APIs.
func (c *Client) offers(ctx context.Context, b *kgo.Broker, key int16) (bool, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	// The connection has introduced itself already; these must be valid names all the same.
	req.ClientSoftwareName, req.ClientSoftwareVersion = c.software()
	answer, err := request(ctx, b, req)
	if err != nil {
		return false, err
	}
	resp, ok := answer.(*kmsg.ApiVersionsResponse)
	if !ok {
		return false, fmt.Errorf("ApiVersions was answered by a %T", answer)
	}
	if err := errorOf(resp.ErrorCode, nil); err != nil {
		return false, err
	}
	return slices.ContainsFunc(resp.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == key }), nil
}

// request sends req to b. All requests of this package only read, or close connections that are to be closed, so that sending one
// again does no harm.
func request(ctx context.Context, b *kgo.Broker, req kmsg.Request) (kmsg.Response, error) {
	resp, err := b.Request(ctx, req)
	if closedByPeer(err) {
		resp, err = b.Request(ctx, req)
	}
	return resp, err
}

func closedByPeer(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// errorOf is what a response's error code and message say; nil for code 0.
func errorOf(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err != nil && message != nil && *message != "" {
		return fmt.Errorf("%w (%s)", err, *message)
	}
	return err
}

// software is how the client introduces itself. A later ApiVersions replaces what an earlier one said, so that this one
// has to say the same.
func (c *Client) software() (name, version string) {
	values := c.cl.OptValues(kgo.SoftwareNameAndVersion)
	if len(values) == 2 {
		name, _ = values[0].(string)
		version, _ = values[1].(string)
	}
	return name, version
}
