package quota

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// The numbers of yammer's own test of its EWMA: three a tick interval once, and
// then nothing.
func TestMovingRatesAreYammers(t *testing.T) {
	start := time.Now()
	m := meter{start: start}
	m.mark(3*time.Second, start.Add(time.Second))
	for _, at := range []struct {
		after              time.Duration
		one, five, fifteen float64
	}{
		{4999 * time.Millisecond, 0, 0, 0}, // not ticked yet
		{5 * time.Second, 0.6, 0.6, 0.6},
		{65 * time.Second, 0.22072766, 0.49123845, 0.56130419},
		{125 * time.Second, 0.08120117, 0.40219203, 0.52510399},
		{185 * time.Second, 0.02987224, 0.32928698, 0.49123845},
	} {
		got := m.read(start.Add(at.after))
		for i, pair := range [][2]float64{{got.OneMinute, at.one}, {got.FiveMinute, at.five}, {got.FifteenMinute, at.fifteen}} {
			if math.Abs(pair[0]-pair[1]) > 1e-8 {
				t.Errorf("after %v: rate %d = %v, want %v", at.after, i, pair[0], pair[1])
			}
		}
		if want := 3 * float64(time.Second) / float64(at.after); got.Count != 3e9 || math.Abs(got.Mean-want) > 1e-12 {
			t.Errorf("after %v: count %d, mean %v, want 3e9 and %v", at.after, got.Count, got.Mean, want)
		}
	}
}

func TestAMeterThatNothingWasMarkedOnReadsZero(t *testing.T) {
	start := time.Now()
	m := meter{start: start}
	for _, after := range []time.Duration{0, time.Second, time.Hour} {
		if got := m.read(start.Add(after)); got != (Meter{}) {
			t.Errorf("after %v: %+v, want zeros", after, got)
		}
	}
}

// ewma is yammer's, ticked by its thread.
type ewma struct{ alpha, uncounted, rate, ticks float64 }

func (e *ewma) tick() {
	instant := e.uncounted / float64(tick)
	e.uncounted = 0
	if e.ticks == 0 {
		e.rate = instant
	} else {
		e.rate += e.alpha * (instant - e.rate)
	}
	e.ticks++
}

// A meter that is only looked at now and then reads as one that a thread ticks.
func TestAMeterCatchesUpWithItsTicks(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	start := time.Now()
	for range 50 {
		m := meter{start: start}
		var ticked [movingRates]ewma
		for i, over := range minutes() {
			ticked[i].alpha = 1 - math.Exp(-5.0/60/over)
		}
		var now, next time.Duration = 0, tick
		for range 100 {
			now += time.Duration(r.Int64N(int64(20 * time.Second)))
			if r.IntN(10) == 0 {
				now += 30 * time.Minute
			}
			for ; next <= now; next += tick {
				for i := range ticked {
					ticked[i].tick()
				}
			}
			d := time.Duration(r.Int64N(int64(3 * time.Second)))
			if r.IntN(2) == 0 {
				m.mark(d, start.Add(now))
				for i := range ticked {
					ticked[i].uncounted += float64(d)
				}
			}
			if r.IntN(3) > 0 {
				continue
			}
			got := m.read(start.Add(now))
			for i, rate := range []float64{got.OneMinute, got.FiveMinute, got.FifteenMinute} {
				if math.Abs(rate-ticked[i].rate) > 1e-9*max(1, ticked[i].rate) {
					t.Fatalf("at %v: rate %d = %v, want %v", now, i, rate, ticked[i].rate)
				}
			}
		}
	}
}
