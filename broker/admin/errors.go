package admin

import (
	"context"
	"slices"
)

// BrokerErrors takes the errors of single brokers out of what a call of [Client] returned, in its order: those of the brokers
// that did not answer. It is empty for nil, and for an error of another kind: then no broker could be asked.
func BrokerErrors(err error) []*BrokerError {
	switch err := err.(type) { //nolint:errorlint // joined errors are taken apart
	case *BrokerError:
		return []*BrokerError{err}
	case interface{ Unwrap() []error }:
		var all []*BrokerError
		for _, part := range err.Unwrap() {
			all = append(all, BrokerErrors(part)...)
		}
		return all
	case interface{ Unwrap() error }:
		return BrokerErrors(err.Unwrap())
	}
	return nil
}

// Answering returns, of nodes or where there are none of all brokers of the cluster, those that err, which a call of c returned,
// does not name: whom to ask on. With nil and no nodes it is nil, which asks all.
func (c *Client) Answering(ctx context.Context, nodes []int32, err error) ([]int32, error) {
	failed := BrokerErrors(err)
	if len(failed) == 0 {
		return nodes, err
	}
	brokers, _, err := c.brokers(ctx, nodes)
	if err != nil {
		return nil, err
	}
	answering := []int32{}
	for _, b := range brokers {
		if !slices.ContainsFunc(failed, func(f *BrokerError) bool { return f.NodeID == b.NodeID }) {
			answering = append(answering, b.NodeID)
		}
	}
	return answering, nil
}
