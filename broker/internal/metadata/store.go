package metadata

import (
	"context"
	"errors"
	"log/slog"
)

// Options are what a store needs to know.
type Options struct {
	// Dir is the folder of the log. "" keeps it in memory.
	Dir string
	// NodeID is the broker that appends through this store.
	NodeID int32
	// ClusterID is the cluster's; a log that belongs to another cluster is refused.
	ClusterID string
	// Bootstrap is the first change of a new log, such as the feature levels of a new cluster.
	Bootstrap []Record
	// Log says what the store did. nil is silence.
	Log *slog.Logger
}

// Store holds the image and appends to the log. It is safe for concurrent use.
type Store struct{}

// Open opens the log, or makes a new one, and returns once the image holds everything that was ever acknowledged.
func Open(ctx context.Context, o Options) (*Store, error) { return nil, errors.ErrUnsupported }

// Image returns the latest image. It never changes; the next call may return a newer one.
func (s *Store) Image() *Image { return nil }

// Append makes records one change: all of them or none. It returns when the change is durable and in the image. A
// change that a rule refuses is a [*RejectedError]; after any other error the change may still come true.
func (s *Store) Append(ctx context.Context, records ...Record) error { return errors.ErrUnsupported }

// Update appends what admit makes of the image. When the image has changed meanwhile so that the change is refused,
// admit is asked again.
func (s *Store) Update(ctx context.Context, admit func(*Image) ([]Record, error)) error {
	return errors.ErrUnsupported
}

// Failed is closed when the store cannot go on, as after a record that it does not know; [Store.Err] says why.
func (s *Store) Failed() <-chan struct{} { return nil }

// Err is why the store cannot go on; nil while it can.
func (s *Store) Err() error { return nil }

// Close stops the store. What was acknowledged is durable with or without it.
func (s *Store) Close() error { return nil }
