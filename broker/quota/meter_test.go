package quota

import (
	"fmt"
	"math"
	"os"
	"strings"
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

// What yammer's own Meter read (testdata/Blocked.java), ticked by a thread, is
// what this one reads that catches up.
func TestAMeterReadsAsYammersDoes(t *testing.T) {
	text, err := os.ReadFile("testdata/meter-2.2.0.txt")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	m := meter{start: start}
	reads := 0
	for line := range strings.Lines(string(text)) {
		var what string
		var ms, n int64
		var want [1 + movingRates]float64
		if _, err := fmt.Sscan(line, &what, &ms, &n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		now := start.Add(time.Duration(ms) * time.Millisecond)
		if what == "mark" {
			m.mark(time.Duration(n)*time.Millisecond, now)
			continue
		}
		if _, err := fmt.Sscan(line, &what, &ms, &n, &want[0], &want[1], &want[2], &want[3]); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		reads++
		got := m.read(now)
		if got.Count != uint64(n) {
			t.Errorf("at %d ms: count %d, want %d", ms, got.Count, n)
		}
		for i, rate := range []float64{got.Mean, got.OneMinute, got.FiveMinute, got.FifteenMinute} {
			if math.Abs(rate-want[i]) > 1e-12 {
				t.Errorf("at %d ms: rate %d = %v, want %v", ms, i, rate, want[i])
			}
		}
	}
	if reads < 10 {
		t.Errorf("only %d reads", reads)
	}
}
