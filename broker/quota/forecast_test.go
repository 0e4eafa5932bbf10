package quota

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// What is foretold is what then happens, whatever happened before, and foretelling it changes nothing.
func TestAForecastComesTrueAndChangesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { foretell(t, rand.New(rand.NewPCG(seed, 4))) })
		})
	}
}

func foretell(t *testing.T, r *rand.Rand) {
	t.Helper()
	c := Default()
	c.MaxConnections, c.MaxSSLConnections, c.MaxPerIP, c.CreationRate, c.InterBroker = 30, 10, 8, 3, "INTERNAL"
	c.Listeners = map[string]ListenerConfig{"SSL": {MaxConnections: 12, CreationRate: 2}, "INTERNAL": {MaxConnections: 9, CreationRate: Unlimited}}
	q := New(Window{Samples: 1 + r.IntN(4), Size: time.Second}, c)
	names := []string{"SSL", "PLAINTEXT", "INTERNAL"}
	for _, name := range names {
		q.AddListener(name, name == "SSL")
	}
	q.SetIPRates(4, map[netip.Addr]int{netip.MustParseAddr("10.0.0.1"): 1})
	if _, err := q.Forecast("NOWHERE", netip.IPv4Unspecified()); !errors.Is(err, ErrNoListener) {
		t.Errorf("Forecast() of no listener = %v", err)
	}
	var open []*Slot
	for range 300 {
		<-time.After(time.Duration(r.IntN(400)) * time.Millisecond)
		for len(open) > 0 && r.IntN(3) == 0 {
			i := r.IntN(len(open))
			open[i].Release()
			open = append(open[:i], open[i+1:]...)
		}
		name, addr := names[r.IntN(len(names))], netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + r.IntN(4))})
		before := fmt.Sprint(q.State(), q.IP(addr))
		f, err := q.Forecast(name, addr)
		if after := fmt.Sprint(q.State(), q.IP(addr)); err != nil || after != before {
			t.Fatalf("Forecast() = %v, and the state went from %s to %s", err, before, after)
		}
		open = append(open, f.hold(t, q, name, addr))
	}
	for _, s := range open {
		s.Release()
	}
}

// hold lets a connection come and compares what happens with what was foretold.
func (f Forecast) hold(t *testing.T, q *Connections, name string, addr netip.Addr) *Slot {
	t.Helper()
	const patience = time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), f.Delay+patience)
	defer cancel()
	slot, waited, err := q.Acquire(ctx, name, addr)
	want := Waited{Rate: f.Delay, Limit: f.Rate}
	if f.Slot != None {
		want.Slot, want.Limit = patience, f.Slot
	}
	if waited != want {
		t.Fatalf("waited = %+v, want %+v of %+v", waited, want, f)
	}
	var throttled *ThrottledError
	var many *TooManyError
	switch {
	case f.Slot != None:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("without a slot: %v", err)
		}
	case f.Delay > 0: // the rate of the address is another by now
	case f.IPDelay > 0:
		if !errors.As(err, &throttled) || throttled.Delay != f.IPDelay {
			t.Fatalf("over the address's rate: %v, want %v", err, f.IPDelay)
		}
	case f.TooMany != errors.As(err, &many):
		t.Fatalf("error = %v, foretold %+v", err, f)
	case !f.TooMany && err != nil:
		t.Fatal(err)
	}
	return &slot
}
