package network

import (
	"strings"
	"testing"
	"unsafe"
)

func TestTheRingRemembersTheLastThatEndedInOrder(t *testing.T) {
	t.Parallel()
	var r closedRing
	if all, latest, complete := r.after(0); len(all) != 0 || latest != 0 || !complete.IsZero() {
		t.Errorf("after(0) of nothing = %d entries, %d", len(all), latest)
	}
	const more = 10
	for i := range ClosedKept + more {
		r.add(&Closed{index: int32(i)})
	}
	for _, test := range []struct{ after, first uint64 }{
		{0, more + 1}, {more, more + 1}, {more + 5, more + 6}, {ClosedKept + more, 0}, {1 << 40, 0},
	} {
		all, latest, complete := r.after(test.after)
		if complete.IsZero() {
			t.Errorf("after(%d) has forgotten nothing, want the time of the oldest", test.after)
		}
		if latest != ClosedKept+more {
			t.Errorf("after(%d) counts %d, want %d", test.after, latest, ClosedKept+more)
		}
		want := 0
		if test.first > 0 {
			want = int(latest - test.first + 1)
		}
		if len(all) != want {
			t.Errorf("after(%d) = %d entries, want %d", test.after, len(all), want)
			continue
		}
		for i := range all {
			if s := test.first + uint64(i); all[i].Sequence != s || all[i].index != int32(s-1) || all[i].At.IsZero() {
				t.Fatalf("after(%d)[%d] = %+v, want sequence %d", test.after, i, all[i], s)
			}
		}
	}
	if len(r.kept) != ClosedKept {
		t.Errorf("the ring has grown to %d", len(r.kept))
	}
}

// What all closed connections of a broker may cost together, names aside.
func TestTheRingIsSmall(t *testing.T) {
	t.Parallel()
	if size := unsafe.Sizeof(Closed{}) * ClosedKept; size > 1<<20+1<<19 {
		t.Errorf("the ring takes %d bytes", size)
	}
}

func TestALongNameIsNotKeptWhole(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 20_000)
	if got := cut(long); len(got) > longestKept+len("…") || !strings.HasPrefix(long, strings.TrimSuffix(got, "…")) || !strings.HasSuffix(got, "…") {
		t.Errorf("cut = %q", got)
	}
	if got := cut("short"); got != "short" {
		t.Errorf("cut = %q", got)
	}
}
