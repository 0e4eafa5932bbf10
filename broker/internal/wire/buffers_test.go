package wire

import "testing"

func TestBuffersHaveRoomForWhatIsAskedFor(t *testing.T) {
	var b Buffers
	for _, n := range []int{0, 1, 4096, 4097, 1 << 20, 1<<20 + 1, 1 << 24, 1<<24 + 1} {
		s := b.Get(n)
		if len(s) != 0 || cap(s) < n {
			t.Errorf("Get(%d) = %d of %d bytes, want none of as many", n, len(s), cap(s))
		}
		b.Put(append(s, make([]byte, n)...))
		if again := b.Get(n); len(again) != 0 || cap(again) < n {
			t.Errorf("Get(%d) after Put = %d of %d bytes, want none of as many", n, len(again), cap(again))
		}
	}
}

// Memory that has grown to an odd size serves the smaller requests.
func TestGrownMemoryServesWhatItHasRoomFor(t *testing.T) {
	var b Buffers
	b.Put(make([]byte, 0, 12_000))
	if s := b.Get(9_000); cap(s) < 9_000 {
		t.Errorf("Get(9000) has room for %d", cap(s))
	}
}
