package metadata

import (
	"context"
	"sync"
)

// CatchUp returns once the image holds every change that was acknowledged before the call, by whichever broker: who
// decides by an image that is behind may find there what somebody else has taken away. A log that nobody shares is never
// ahead. While the log cannot be reached it waits, until ctx ends.
func (s *Store) CatchUp(ctx context.Context) error {
	if s.log.remote == nil {
		return nil
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.done, cancel)() //nolint:contextcheck // the end of the store ends it, too
	var end int64
	err := s.log.untilReached(asking, s.slog, func(ctx context.Context) (err error) {
		end, err = s.log.end(ctx)
		return err
	})
	for err == nil {
		moved := s.moved.next()
		if s.Image().offset >= end {
			return nil
		}
		select {
		case <-moved:
		case <-asking.Done():
			err = asking.Err()
		}
	}
	switch {
	case s.done.Err() != nil:
		return s.closedErr()
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return err
}

// moves tells who waits that there is another image. The zero value is ready; safe for concurrent use.
type moves struct {
	mu     sync.Mutex
	moving chan struct{} // nil while nobody waits
}

// next is closed at the next move.
func (m *moves) next() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moving == nil {
		m.moving = make(chan struct{})
	}
	return m.moving
}

func (m *moves) move() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.moving != nil {
		close(m.moving)
		m.moving = nil
	}
}
