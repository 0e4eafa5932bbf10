package network

import (
	"math"
	"testing"
	"time"
)

func TestASpanOfTimeKeepsItsPrecisionInFourBytes(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, test := range []struct{ d, want time.Duration }{
		{-time.Second, 0},
		{0, 0},
		{time.Microsecond + 999*time.Nanosecond, time.Microsecond},
		{35 * time.Minute, 35 * time.Minute},
		{mostMicro * time.Microsecond, mostMicro * time.Microsecond},
		{(mostMicro + 1) * time.Microsecond, ((mostMicro + 1) * time.Microsecond).Truncate(time.Millisecond)},
		{time.Hour + time.Millisecond + 999*time.Microsecond, time.Hour + time.Millisecond},
		{24 * day, 24 * day},
		{1000 * day, math.MaxInt32 * time.Millisecond},
	} {
		a := afterOf(test.d)
		if got := a.duration(); got != test.want || a == never {
			t.Errorf("afterOf(%v).duration() = %v (never: %t), want %v", test.d, got, a == never, test.want)
		}
	}
	if d := never.duration(); d != 0 {
		t.Errorf("never.duration() = %v, want 0", d)
	}
}

func TestAStageIsMarkedOnce(t *testing.T) {
	t.Parallel()
	var s stamps
	s.accept(int64(time.Hour))
	s.mark(&s.first, int64(time.Hour+time.Minute))
	s.mark(&s.first, int64(time.Hour+time.Hour))
	copied := s.copy()
	line := copied.timeline()
	if got := line.FirstRequest.Sub(line.Accepted); got != time.Minute {
		t.Errorf("first request after %v, want the first mark's minute", got)
	}
	if !line.Admitted.IsZero() || !line.HandshakeDone.IsZero() || line.Accepted.IsZero() {
		t.Errorf("timeline = %+v, want only what was marked", line)
	}
}
