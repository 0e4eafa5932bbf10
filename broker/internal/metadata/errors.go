package metadata

import (
	"errors"
	"fmt"
)

// Why a change is refused, inside a [RejectedError].
var (
	ErrNotFound    = errors.New("does not exist")                                // what is to be removed is not there
	ErrInvalid     = errors.New("is not valid")                                  // the record itself is wrong
	ErrUnsupported = errors.New("is not supported by the current feature level") // metadata.version is too low
)

// Why a store does not work.
var (
	ErrClosed        = errors.New("metadata store is closed")
	ErrInUse         = errors.New("in use by another process")
	ErrUnknownRecord = errors.New("unknown metadata record")
)

// RejectedError says which record of a change was refused, and why. The image is as if the change had never been.
type RejectedError struct {
	Index  int // of the record in the change
	Record Record
	Detail string
	Err    error // ErrNotFound, ErrInvalid or ErrUnsupported
}

func (e *RejectedError) Error() string {
	return fmt.Sprintf("record %d (%T) %v: %s", e.Index, e.Record, e.Err, e.Detail)
}

func (e *RejectedError) Unwrap() error { return e.Err }
