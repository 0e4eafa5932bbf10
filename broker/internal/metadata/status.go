package metadata

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Status is how a store is with its log.
type Status struct {
	Offset    int64     // of the next entry to apply
	End       int64     // after the last entry that the log was seen to have
	Connected bool      // all that was last tried worked: to read the log, to write it, to give a sign of life
	Since     time.Time // when the log last answered
	Why       error     // what did not work, when not Connected
	Fenced    bool      // see [Store.Fenced]
}

// Status says how the store is with its log. The image's [Image.Hash] is a question of its own, since it may take a while.
func (s *Store) Status() Status {
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	offset := s.Image().offset
	status := Status{Offset: offset, End: max(offset, s.link.end), Connected: true, Since: s.link.since, Fenced: s.Fenced()}
	for _, why := range s.link.why {
		if why != nil && status.Why == nil {
			status.Connected, status.Why = false, why
		}
	}
	return status
}

// Fenced tells whether the broker is fenced: by the log, or because no heartbeat of its own was acknowledged for a session.
// A store that has not joined a cluster is not fenced. It costs next to nothing.
func (s *Store) Fenced() bool {
	m := s.member.Load()
	return m != nil && m.fenced.Load()
}

// way is something that a store does with its log.
type way int

const (
	reading way = iota
	writing
	beating
	ways
)

func (w way) String() string {
	return [ways]string{"read", "write", "give a sign of life"}[w]
}

// link is what a store knows of its ways to the log. Safe for concurrent use.
type link struct {
	log     *slog.Logger
	servers []string

	mu     sync.Mutex // guards what follows
	since  time.Time
	read   time.Time // when the log was last read
	end    int64
	why    [ways]error  // what went wrong last time
	absent [ways]string // what was said of a log that is not where it was, until the way works again
}

// heard notes an answer of the log.
func (l *link) heard(w way) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = time.Now()
	if w == reading {
		l.read = l.since
	}
	l.absent[w] = ""
	if l.why[w] != nil {
		l.why[w] = nil
		l.log.Info("metadata log is reached again", slog.String("to", w.String()))
	}
}

// reaches notes where the log ends.
func (l *link) reaches(end int64) {
	l.heard(reading)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end = end
}

// missed notes why the log did not answer, or not as it should.
func (l *link) missed(w way, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if absent := new(absentError); errors.As(why, &absent) {
		if !slices.Contains(l.absent[:], absent.text) { // told of another way
			l.log.Error("metadata log is not where it was: going on with what is known",
				slog.String("servers", strings.Join(l.servers, ",")), slog.String("error", absent.text))
		}
		l.absent[w] = absent.text
	} else if l.why[w] == nil {
		l.log.Warn("metadata log cannot be reached: going on with what is known", slog.String("to", w.String()), slog.Any("error", why))
	}
	l.why[w] = why
}

// current is until when the image is known to be that of the log: now, unless the log was not read last time.
func (l *link) current() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why[reading] == nil {
		return time.Now()
	}
	return l.read
}

// lastRead is when the log was last read.
func (l *link) lastRead() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.read
}
