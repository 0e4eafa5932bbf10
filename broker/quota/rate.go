package quota

import (
	"math"
	"time"
)

// window is how events are sampled; times are milliseconds of one clock.
type window struct {
	samples int
	size    int64
}

// expireAge is how long ago the last event of a sample may be.
func (w window) expireAge() int64 { return int64(w.samples) * w.size }

// sample is what was recorded in one window.
type sample struct {
	start, last int64
	value       int64 // the sum of what was recorded
	events      int64 // how often
}

// sampled is Kafka's SampledStat: a ring of one sample more than the window
// has, made as they are needed. The zero value is empty.
type sampled struct {
	ring    []sample
	current int
	purged  int64 // nothing needs to be purged before; never too late
}

// record adds a value to the sample of now.
func (s *sampled) record(w window, value, now int64) {
	if len(s.ring) == 0 {
		s.ring = append(s.ring, sample{start: now, last: now})
	}
	if now-s.ring[s.current].start >= w.size {
		s.advance(w, now)
	}
	c := &s.ring[s.current]
	c.value += value
	c.events++
	c.last = now
}

func (s *sampled) advance(w window, now int64) {
	s.current = (s.current + 1) % (w.samples + 1)
	fresh := sample{start: now, last: now}
	if s.current >= len(s.ring) {
		s.ring = append(s.ring, fresh)
	} else {
		s.ring[s.current] = fresh
	}
}

// purge empties the samples whose last event is out of the window: one that
// began before the window and reaches into it stays.
func (s *sampled) purge(w window, now int64) {
	if now < s.purged {
		return
	}
	s.purged = now + w.expireAge()
	for i := range s.ring {
		if now-s.ring[i].last >= w.expireAge() {
			s.ring[i] = sample{start: now, last: now}
		}
		s.purged = min(s.purged, s.ring[i].last+w.expireAge())
	}
}

// measure adds up what is in the window, and tells when its oldest sample
// began. It changes nothing: that somebody looks does not move a limit.
func (s *sampled) measure(w window, now int64) (value, events, oldest int64) {
	oldest = now
	for i := range s.ring {
		if c := &s.ring[i]; now-c.last < w.expireAge() {
			value += c.value
			events += c.events
			oldest = min(oldest, c.start)
		}
	}
	return value, events, oldest
}

// rate is Kafka's Rate of events (clients/…/metrics/stats/Rate.java).
type rate struct{ sampled }

// measure is the rate in events a second, and the milliseconds that it was
// measured over: since the oldest sample began, but never less than all windows
// but one and what has passed of the last.
func (r *rate) measure(w window, now int64) (perSecond float64, elapsed int64) {
	value, _, oldest := r.sampled.measure(w, now)
	elapsed = now - oldest
	if full, least := elapsed/w.size, int64(w.samples-1); full < least {
		elapsed += (least - full) * w.size
	}
	elapsed = max(elapsed, 1)
	return float64(value) / (float64(elapsed) / 1000), elapsed
}

// throttle records one event and returns how long to wait until the rate is
// the limit again, at most one window; zero when it is not exceeded. The event
// stays recorded either way.
func (r *rate) throttle(w window, limit int, now int64) time.Duration {
	r.record(w, 1, now)
	r.purge(w, now)
	perSecond, elapsed := r.measure(w, now)
	bound := float64(limit)
	if perSecond <= bound {
		return 0
	}
	delay := float64(w.size)
	if bound > 0 {
		delay = min(delay, math.Floor((perSecond-bound)/bound*float64(elapsed)+0.5))
	}
	return time.Duration(delay) * time.Millisecond
}

// unrecord takes an event back. Its own sample may be another by now, so that
// a sample can be below zero.
func (r *rate) unrecord(w window, now int64) { r.record(w, -1, now) }

// average is Kafka's Avg, over the samples that metrics have by default.
type average struct{ sampled }

func averageWindow() window { return window{samples: 2, size: 30_000} }

func (a *average) record(d time.Duration, now int64) {
	a.sampled.record(averageWindow(), d.Milliseconds(), now)
}

// measure is in milliseconds, NaN when nothing was recorded lately.
func (a *average) measure(now int64) float64 {
	value, events, _ := a.sampled.measure(averageWindow(), now)
	if events == 0 {
		return math.NaN()
	}
	return float64(value) / float64(events)
}
