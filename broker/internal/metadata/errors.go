package metadata

import (
	"errors"
	"fmt"

	"github.com/brokerlab/brokerlab/broker/feature"
)

// Why a change is refused, inside a [RejectedError].
var (
	ErrNotFound    = errors.New("does not exist")                                // what is to be removed is not there
	ErrInvalid     = errors.New("is not valid")                                  // the record itself is wrong
	ErrUnsupported = errors.New("is not supported by the current feature level") // metadata.version is too low
	// ErrDuplicateBroker is Kafka's DUPLICATE_BROKER_REGISTRATION.
	ErrDuplicateBroker = errors.New("is registered by another incarnation that lives, as when two brokers have one node.id")
)

// Why a store does not work.
var (
	ErrClosed        = errors.New("metadata store is closed")
	ErrInUse         = errors.New("in use by another process")
	ErrUnknownRecord = errors.New("unknown metadata record")
	// ErrLevel is a level of a feature that a broker cannot work at; a [*LevelError] says which.
	ErrLevel = errors.New("unsupported feature level")
	// ErrVerdictLost is a change that was judged in a part of the log that was gone before this broker read it: whoever made
	// it must look whether it has come true.
	ErrVerdictLost = errors.New("the metadata log was shortened before its verdict on the change was read")
	// ErrSuperseded is a change of a process whose node id has since been another's.
	ErrSuperseded = errors.New("another process writes the metadata log with this node id")
)

// LevelError says which broker cannot work at which level of a feature. It is [ErrLevel].
type LevelError struct {
	Feature  string
	Level    int16
	Broker   int32 // NodeID
	Min, Max int16 // the levels that it works at
}

func (e *LevelError) Error() string {
	return fmt.Sprintf("%s %d (%s) is not supported by broker %d, which works with %d (%s) to %d (%s)",
		e.Feature, e.Level, feature.Name(e.Level), e.Broker, e.Min, feature.Name(e.Min), e.Max, feature.Name(e.Max))
}

// Is makes it [ErrLevel].
func (*LevelError) Is(target error) bool { return target == ErrLevel }

// RejectedError says which record of a change was refused, and why. The image is as if the change had never been.
type RejectedError struct {
	Index  int // of the record in the change
	Record Record
	Detail string
	Err    error // ErrNotFound, ErrInvalid, ErrUnsupported, ErrDuplicateBroker or a *LevelError
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("record %d (%T) %v: %s", e.Index, e.Record, e.Err, e.Detail)
}

func (e *RejectedError) Unwrap() error { return e.Err }
