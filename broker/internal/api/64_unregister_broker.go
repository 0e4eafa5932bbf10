package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// unregisterBroker forgets a broker, which is no longer asked what it supports nor listed as fenced.
//
// Versions: 0.
// Needs: ALTER on CLUSTER.
// Differs from Kafka: a broker that lives registers again at once, where Kafka's is out until it is restarted. A broker alone
// registers nowhere: it knows none, not even itself.
func unregisterBroker(ctx context.Context, q *call, req *kmsg.UnregisterBrokerRequest) (*kmsg.UnregisterBrokerResponse, error) {
	resp := kmsg.NewPtrUnregisterBrokerResponse()
	resp.ErrorMessage = new(string)
	err := q.server.o.Metadata.Append(ctx, metadata.UnregisterBroker{ID: req.BrokerID})
	var rejected *metadata.RejectedError
	switch {
	case errors.As(err, &rejected) && errors.Is(err, metadata.ErrNotFound):
		resp.ErrorCode = kerr.BrokerIDNotRegistered.Code
		resp.ErrorMessage = new(fmt.Sprintf("Broker ID %d is not currently registered", req.BrokerID))
	case err != nil:
		return nil, err
	default:
		q.server.o.Log.Info("unregistered a broker", slog.Int("broker", int(req.BrokerID)), slog.String("principal", principal(q.conn.Identity())))
	}
	return resp, nil
}
