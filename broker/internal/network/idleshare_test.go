package network

import (
	"testing"
	"time"
)

func TestTheIdleShareIsOfTheLastMinute(t *testing.T) {
	t.Parallel()
	const second = int64(time.Second)
	now := 1000 * second
	s := newIdleShare(now)
	pass := func(busy, idle int64) {
		s.end(now)
		now += busy * second
		s.begin(now)
		now += idle * second
	}
	want := func(low, high float64) {
		t.Helper()
		if got := s.share(now); got < low || got > high {
			t.Errorf("share = %v, want %v to %v", got, low, high)
		}
	}
	want(1, 1) // nothing was to be done in no time
	for range 3 {
		pass(1, 3)
	}
	want(0.75, 0.75)
	for range 100 {
		pass(1, 0)
	}
	want(0, 0) // what was before is forgotten
	pass(0, 3600)
	want(0.99, 1) // the present wait counts
	want(0.99, 1)
	pass(45, 0)
	want(0, 0.6)
}
