package engine

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// ErrClosed answers requests of a closed [Engine] or [Client].
var ErrClosed = errors.New("engine is closed")

// ErrUnavailable answers requests for a data plane somewhere else that cannot be reached, or that did not answer in
// time.
var ErrUnavailable = errors.New("the engine cannot be reached")

// ErrUnanswered is an [ErrUnavailable] of a request that was sent: whether it was carried out is not known. Without it nothing was.
var ErrUnanswered = errors.New("the engine did not answer")

// unanswered makes err that of a request which was sent.
func unanswered(err error) error {
	if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrUnanswered) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnanswered, err)
}

// RefusedError says that the guard refused a whole request. The front door answers Code in the request's own shape.
type RefusedError struct {
	Key  int16
	Code int16 // a Kafka error code
	Why  string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("request with key %d refused: %s: %s", e.Key, kerr.TypedErrorForCode(e.Code).Message, e.Why)
}

// AcksError says that a Produce with acks=0 failed; Kafka closes the connection then. It names the first partition
// that failed.
type AcksError struct {
	Topic     string
	Partition int32
	Code      int16
}

func (e *AcksError) Error() string {
	return fmt.Sprintf("produce with acks=0 to %s-%d: %s", e.Topic, e.Partition, kerr.TypedErrorForCode(e.Code).Message)
}
