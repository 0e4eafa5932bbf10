package quota

import (
	"math"
	"time"
)

// Meter is a yammer Meter of blocked time. Its rates are nanoseconds a
// nanosecond: the share of the time, 0 to 1, that the acceptor was blocked.
type Meter struct {
	Count                                uint64 // nanoseconds in all
	Mean                                 float64
	OneMinute, FiveMinute, FifteenMinute float64 // exponentially weighted
}

const (
	tick        = 5 * time.Second
	movingRates = 3
)

// meter is what a [Meter] is read from. A yammer Meter is ticked by a thread
// every five seconds; this one catches up with its ticks when it is used.
type meter struct {
	start   time.Time
	ticks   int64  // that it has seen
	count   uint64 // ns
	uncount uint64 // ns since the last tick
	rates   [movingRates]float64
}

// minutes that the rates are weighted over.
func minutes() [movingRates]float64 { return [...]float64{1, 5, 15} }

func (m *meter) mark(d time.Duration, now time.Time) {
	m.catchUp(now)
	m.count += uint64(max(d, 0))
	m.uncount += uint64(max(d, 0))
}

// catchUp does the ticks up to now: the first has what was marked since the
// last one, those after it have nothing.
func (m *meter) catchUp(now time.Time) {
	ticks := int64(now.Sub(m.start) / tick)
	n := ticks - m.ticks
	if n <= 0 {
		return
	}
	instant := float64(m.uncount) / float64(tick)
	for i, over := range minutes() {
		alpha := 1 - math.Exp(-tick.Minutes()/over)
		if m.ticks == 0 {
			m.rates[i] = instant
		} else {
			m.rates[i] += alpha * (instant - m.rates[i])
		}
		m.rates[i] *= math.Pow(1-alpha, float64(n-1))
	}
	m.ticks, m.uncount = ticks, 0
}

func (m *meter) read(now time.Time) Meter {
	m.catchUp(now)
	r := Meter{Count: m.count, OneMinute: m.rates[0], FiveMinute: m.rates[1], FifteenMinute: m.rates[2]}
	if elapsed := now.Sub(m.start); m.count > 0 && elapsed > 0 {
		r.Mean = float64(m.count) / float64(elapsed)
	}
	return r
}
