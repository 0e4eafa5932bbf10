package metadata

import (
	"log/slog"
	"sync"
	"time"
)

// Status is how a store is with its log.
type Status struct {
	Offset    int64     // of the next entry to apply
	End       int64     // after the last entry that the log was seen to have
	Connected bool      // the log answered last time
	Since     time.Time // when it last answered
	Why       error     // what went wrong since, if anything did
	Fenced    bool      // see [Store.Fenced]
}

// Status says how the store is with its log. The image's [Image.Hash] is a question of its own, since it may take a while.
func (s *Store) Status() Status {
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	offset := s.Image().offset
	return Status{
		Offset: offset, End: max(offset, s.link.end),
		Connected: s.link.connected, Since: s.link.since, Why: s.link.why,
		Fenced: s.Fenced(),
	}
}

// Fenced tells whether the broker is fenced: by the log, or because no heartbeat of its own was acknowledged for a session.
// A store that has not joined a cluster is not fenced. It costs next to nothing.
func (s *Store) Fenced() bool {
	m := s.member.Load()
	return m != nil && m.fenced.Load()
}

// link is what a store knows of the way to its log. Safe for concurrent use.
type link struct {
	mu        sync.Mutex // guards what follows
	connected bool
	since     time.Time
	end       int64
	why       error
}

// heard notes an answer of the log, whose end is there.
func (l *link) heard(log *slog.Logger, end int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why != nil {
		log.Info("metadata log is reached again", slog.Duration("silent", time.Since(l.since)))
	}
	l.connected, l.since, l.end, l.why = true, time.Now(), end, nil
}

// missed notes why the log did not answer.
func (l *link) missed(log *slog.Logger, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why == nil {
		log.Warn("metadata log cannot be reached: going on with what is known", slog.Any("error", why))
	}
	l.connected, l.why = false, why
}
