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
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

// fanOut calls each of the cluster's brokers, or those of nodes, at the same time. Rows are in the order of the nodes'
// ids; the error joins one BrokerError for each call that failed, in the same order, and one for each of nodes that is not there.
// A broker has half of the time that ctx has left, so that there is some for what is asked next when one hangs.
func fanOut[T any](
	ctx context.Context, c *Client, nodes []int32, call func(context.Context, *kgo.Broker, int32) ([]T, error),
) ([]T, error) {
	brokers, missing, err := c.brokers(ctx, nodes)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		half := time.Until(end) / 2
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, half, fmt.Errorf("no answer within %v", half.Round(time.Millisecond)))
		defer cancel()
	}
	rows, errs := make([][]T, len(brokers)), make([]error, len(brokers))
	var wg sync.WaitGroup
	for i, b := range brokers {
		wg.Go(func() {
			var err error
			rows[i], err = call(ctx, c.cl.Broker(int(b.NodeID)), b.NodeID)
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
				err = context.Cause(ctx) // whoever set the bound says it better
			}
			if err != nil {
				errs[i] = &BrokerError{NodeID: b.NodeID, Addr: hostPort(b.Host, b.Port), Err: err}
			}
		})
	}
	wg.Wait()
	failed := BrokerErrors(errors.Join(slices.Concat(errs, missing)...))
	slices.SortStableFunc(failed, func(a, b *BrokerError) int { return cmp.Compare(a.NodeID, b.NodeID) })
	all := make([]error, len(failed))
	for i := range failed {
		all[i] = failed[i]
	}
	return slices.Concat(rows...), errors.Join(all...)
}

// brokers asks the cluster for its brokers and returns those of nodes, sorted by id, and an error for each
// of nodes that the cluster does not have, and for each that is fenced. No nodes are all.
func (c *Client) brokers(ctx context.Context, nodes []int32) (brokers []kmsg.MetadataResponseBroker, missing []error, err error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // none; null would be all
	answer := c.cl.RequestSharded(ctx, req)[0] // of one broker: the request is not one that is split
	if answer.Err != nil {
		return nil, nil, fmt.Errorf("find the cluster's brokers: %w", answer.Err)
	}
	resp, ok := answer.Resp.(*kmsg.MetadataResponse)
	if !ok {
		return nil, nil, fmt.Errorf("find the cluster's brokers: Metadata was answered by a %T", answer.Resp)
	}
	brokers = resp.Brokers
	if len(nodes) > 0 {
		brokers = slices.DeleteFunc(brokers, func(b kmsg.MetadataResponseBroker) bool { return !slices.Contains(nodes, b.NodeID) })
	}
	slices.SortFunc(brokers, func(a, b kmsg.MetadataResponseBroker) int { return cmp.Compare(a.NodeID, b.NodeID) })
	fenced := c.fenced(ctx, c.cl.Broker(int(answer.Meta.NodeID)))
	for _, b := range fenced {
		if len(nodes) == 0 || slices.Contains(nodes, b.NodeID) {
			missing = append(missing, &BrokerError{NodeID: b.NodeID, Addr: hostPort(b.Host, b.Port), Err: ErrFenced})
		}
	}
	for _, n := range nodes {
		if slices.ContainsFunc(fenced, func(b kmsg.DescribeClusterResponseBroker) bool { return b.NodeID == n }) {
			continue
		}
		if !slices.ContainsFunc(brokers, func(b kmsg.MetadataResponseBroker) bool { return b.NodeID == n }) {
			missing = append(missing, &BrokerError{NodeID: n, Err: errors.New("the cluster has no such broker")})
		}
	}
	return brokers, missing, nil
}

// fenced are the brokers that the cluster knows and leads nobody to (KIP-1073): clients cannot reach them by their ids. Where
// that is not told, there are none. It asks b, which has just answered: any of the cluster's may be the one that hangs.
func (c *Client) fenced(ctx context.Context, b *kgo.Broker) []kmsg.DescribeClusterResponseBroker {
	const since = 2
	req := kmsg.NewPtrDescribeClusterRequest()
	req.IncludeFencedBrokers = true
	if most, err := c.offers(ctx, b, req.Key()); err != nil || most < since {
		return nil
	}
	answer, err := request(ctx, b, req)
	resp, ok := answer.(*kmsg.DescribeClusterResponse)
	if err != nil || !ok || resp.ErrorCode != 0 {
		return nil
	}
	return slices.DeleteFunc(resp.Brokers, func(b kmsg.DescribeClusterResponseBroker) bool { return !b.IsFenced })
}

// ask sends req to b, once more when a connection that had been idle turns out to be closed, and only if b says that it
// knows the request.
func ask[R kmsg.Response](ctx context.Context, c *Client, b *kgo.Broker, req kmsg.Request) (R, error) {
	var none R
	most, err := c.offers(ctx, b, req.Key())
	if err != nil {
		return none, err
	}
	name := c.keys.Names()[req.Key()]
	const firstOwn = 10001 // keys from here on are brokerlab's own
	if most < 0 && (req.Key() >= firstOwn || req.Key() == c.keys.ListClientConnections) {
		return none, fmt.Errorf("%s (key %d) is %w: only brokerlab's brokers have it, not an engine behind them", name, req.Key(), ErrNotOffered)
	}
	if most < 0 {
		return none, fmt.Errorf("%s (key %d) is %w", name, req.Key(), ErrNotOffered)
	}
	resp, err := request(ctx, b, req)
	if closedByPeer(err) && req.Key() == protocol.DefaultListClientConnectionsKey {
		return none, fmt.Errorf("%s is %w: it closed the connection at key %d, which may be another API there, as it is in Apache Kafka 4.4, "+
			"which has no request that lists connections", name, ErrNotOffered, req.Key())
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

// offers asks b, a broker or any of the cluster's, for its APIs: it returns the highest version of one, -1 where b does not have it.
func (c *Client) offers(ctx context.Context, b kmsg.Requestor, key int16) (int16, error) {
	req := kmsg.NewPtrApiVersionsRequest()
	// The connection has introduced itself already; these must be valid names all the same.
	req.ClientSoftwareName, req.ClientSoftwareVersion = c.software()
	answer, err := request(ctx, b, req)
	if err != nil {
		return -1, err
	}
	resp, ok := answer.(*kmsg.ApiVersionsResponse)
	if !ok {
		return -1, fmt.Errorf("ApiVersions was answered by a %T", answer)
	}
	if err := errorOf(resp.ErrorCode, nil); err != nil {
		return -1, err
	}
	for _, k := range resp.ApiKeys {
		if k.ApiKey == key {
			return k.MaxVersion, nil
		}
	}
	return -1, nil
}

// request sends req to b. All requests of this package only read, or close connections that are to be closed, so that sending one
// again does no harm.
func request(ctx context.Context, b kmsg.Requestor, req kmsg.Request) (kmsg.Response, error) {
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
