package quota

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Acceptors, loops, an operator and somebody who looks on, all at once: for the
// race detector, and so that no slot is lost or made up.
func TestAllAtOnceNothingIsLost(t *testing.T) {
	t.Parallel()
	q := New(Window{Samples: 2, Size: 50 * time.Millisecond}, Default())
	var woken atomic.Int64
	q.OnExcess(func() { woken.Add(1) })
	names := modelListeners()
	for i, name := range names {
		q.AddListener(name, i%2 == 1)
	}
	ctx, stop := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer stop()
	var all sync.WaitGroup
	var open sync.Map // *Slot to the listener
	for i, name := range names {
		all.Go(func() { acceptor(ctx, t, q, name, &open, rand.New(rand.NewPCG(1, uint64(i)))) })
		all.Go(func() { closer(ctx, q, name, &open, rand.New(rand.NewPCG(2, uint64(i)))) })
	}
	all.Go(func() { operator(ctx, q, rand.New(rand.NewPCG(3, 0))) })
	all.Go(func() { onlooker(ctx, q) })
	all.Wait()
	n := 0
	open.Range(func(slot, _ any) bool {
		n++
		slot.(*Slot).Release()
		return true
	})
	if s := q.State(); s.Connections != 0 || s.SSL != 0 || s.IPs != 0 || len(q.waiting) != 0 || q.claims != 0 || q.sslClaims != 0 {
		t.Errorf("left: %+v, %d waiting, %d claims", s, len(q.waiting), q.claims)
	}
	t.Logf("%d open at the end, loops woken %d times", n, woken.Load())
}

func acceptor(ctx context.Context, t *testing.T, q *Connections, name string, open *sync.Map, r *rand.Rand) {
	t.Helper()
	for ctx.Err() == nil {
		patience, cancel := context.WithTimeout(ctx, time.Duration(1+r.IntN(20))*time.Millisecond)
		slot, _, err := q.Acquire(patience, name, netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(20))}))
		cancel()
		var many *TooManyError
		var held *ThrottledError
		switch {
		case err == nil:
			open.Store(&slot, name)
		case errors.As(err, &many):
			slot.Release()
		case errors.As(err, &held), errors.Is(err, ErrNoListener), errors.Is(err, context.DeadlineExceeded):
		default:
			t.Error(err)
			return
		}
	}
}

// closer is a listener's loops: it closes what is too much, and some more.
func closer(ctx context.Context, q *Connections, name string, open *sync.Map, r *rand.Rand) {
	for ctx.Err() == nil {
		open.Range(func(slot, of any) bool {
			s := slot.(*Slot)
			if of != name {
				return true
			}
			evict := false
			if q.Exceeded(name) {
				_, evict = s.Evict()
			}
			if evict || r.IntN(4) == 0 {
				open.Delete(s)
				s.Release()
			}
			return ctx.Err() == nil
		})
	}
}

func operator(ctx context.Context, q *Connections, r *rand.Rand) {
	some := func(of ...int) int { return of[r.IntN(len(of))] }
	for ctx.Err() == nil {
		c := Default()
		c.InterBroker = internal
		c.MaxConnections, c.MaxSSLConnections, c.MaxPerIP = some(5, 50, Unlimited), some(3, 20, Unlimited), some(2, 10, Unlimited)
		c.CreationRate = some(1000, Unlimited, Unlimited)
		c.Listeners = map[string]ListenerConfig{"SSL": {some(4, 30), some(100, Unlimited)}}
		q.Configure(c)
		q.SetIPRates(some(10, 1000, Unlimited), map[netip.Addr]int{netip.AddrFrom4([4]byte{10, 0, 0, 1}): some(0, 50, Unlimited)})
		if r.IntN(4) == 0 {
			q.RemoveListener("SASL_SSL")
			q.AddListener("SASL_SSL", r.IntN(2) == 0)
		}
		<-time.After(time.Duration(r.IntN(5)) * time.Millisecond)
	}
}

func onlooker(ctx context.Context, q *Connections) {
	for ctx.Err() == nil {
		q.State()
		q.EachIP(func(a netip.Addr, _ int) bool { return q.IP(a).Connections >= 0 })
		q.EachIPRate(func(netip.Addr, float64) bool { return true })
		q.Blocked(internal, time.Millisecond)
		<-time.After(time.Millisecond)
	}
}
