package engine

import (
	"math"
	"math/rand/v2"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// admitInitProducerID gives ids for idempotent producers itself: the data plane would remember each for ever, whether
// anything is written with it or not. It takes an id that it has not seen from the first batch.
func admitInitProducerID(_ *Engine, req *kmsg.InitProducerIDRequest) (passage, error) {
	resp, _ := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	if req.TransactionalID != nil {
		if (req.ProducerID == -1) != (req.ProducerEpoch == -1) {
			resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch = kerr.InvalidRequest.Code, -1, -1
			return passage{answer: resp}, nil
		}
		return passage{req: req}, nil
	}
	resp.ProducerID, resp.ProducerEpoch = rand.Int64N(math.MaxInt64), 0 //nolint:gosec // an id, not a secret
	return passage{answer: resp}, nil
}
