package quota

import (
	"net/netip"
	"testing"
	"testing/synctest"
)

func TestRule05OneListenerMayTakeAllOfTheBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := Default()
		c.MaxConnections = 800
		q := New(Window{}, c)
		q.AddListener("EXTERNAL", false)
		addr := netip.MustParseAddr("192.0.2.1")
		var last Slot
		for i := range 800 {
			s, w, err := q.Acquire(t.Context(), "EXTERNAL", addr)
			if err != nil || w != (Waited{}) {
				t.Fatalf("connection %d: waited %v, error %v, want neither", i, w, err)
			}
			last = s
		}
		done := make(chan Waited)
		go func() {
			_, w, _ := q.Acquire(t.Context(), "EXTERNAL", addr)
			done <- w
		}()
		synctest.Wait()
		if w := q.State().Listeners[0].Waiting; w == nil || w.Limit != MaxConnections {
			t.Fatalf("waiting = %v, want one for max.connections", w)
		}
		last.Release()
		if w := <-done; w.Limit != MaxConnections {
			t.Errorf("waited = %v, want for max.connections", w)
		}
	})
}
