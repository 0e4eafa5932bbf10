package quota

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestLoopsEvictTogetherNoMoreThanTheExcess(t *testing.T) {
	t.Parallel()
	const connections, limit, loops = 600, 250, 8
	for _, tls := range []bool{false, true} {
		q := New(Window{}, Default())
		q.AddListener(external, tls)
		shares := make([][]*Slot, loops)
		for i := range connections {
			s, _, err := q.Acquire(t.Context(), external, netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
			if err != nil {
				t.Fatal(err)
			}
			shares[i%loops] = append(shares[i%loops], &s)
		}
		c := Default()
		c.MaxConnections = limit
		if tls {
			c = Default()
			c.MaxSSLConnections = limit
		}
		q.Configure(c)
		var evicted atomic.Int64
		var running sync.WaitGroup
		for i, share := range shares {
			running.Go(func() {
				r := rand.New(rand.NewPCG(1, uint64(i)))
				var closing []*Slot // claimed, and closed only later
				for _, s := range share {
					if !q.Exceeded(external) {
						break
					}
					if _, ok := s.Evict(); ok {
						closing = append(closing, s)
					}
					if n := len(closing); n > 0 && r.IntN(3) == 0 {
						closing[n-1].Release()
						closing = closing[:n-1]
						evicted.Add(1)
					}
				}
				for _, s := range closing {
					s.Release()
					evicted.Add(1)
				}
			})
		}
		running.Wait()
		if s := q.State(); evicted.Load() != connections-limit || s.Connections != limit || q.Exceeded(external) {
			t.Errorf("TLS %v: evicted %d, %d left, exceeded %v; want %d evicted and %d left",
				tls, evicted.Load(), s.Connections, q.Exceeded(external), connections-limit, limit)
		}
	}
}

// A claim belongs to its connection: another one that closes meanwhile does not
// end it, and the excess that it settles is not evicted twice.
func TestAnotherCloseDoesNotEndAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(Default())
		in := open(t, q, external, 4)
		q.Configure(limited(func(c *Config) { c.MaxConnections = 2 }))
		if limit, ok := in[0].slot.Evict(); !ok || limit != MaxConnections {
			t.Fatalf("Evict() = %v, %v", limit, ok)
		}
		if _, ok := in[0].slot.Evict(); ok {
			t.Error("a connection was claimed twice")
		}
		in[1].slot.Release()
		if q.Exceeded(external) {
			t.Error("Exceeded() although one has closed and the other is claimed")
		}
		if _, ok := in[2].slot.Evict(); ok {
			t.Error("more was claimed than the excess")
		}
		in[0].slot.Release()
		if got := q.State().Connections; got != 2 || q.Exceeded(external) {
			t.Errorf("connections = %d, want 2", got)
		}
	})
}

// A TLS connection that is evicted makes room under both limits.
func TestOneEvictionSettlesBothLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withTLS(Default(), false)
		in, plain := open(t, q, secure, 2), open(t, q, external, 2)
		q.Configure(limited(func(c *Config) { c.MaxConnections, c.MaxSSLConnections = 3, 1 }))
		if _, ok := in[0].slot.Evict(); !ok {
			t.Fatal("no claim")
		}
		for _, a := range append(plain, in[1]) {
			if limit, ok := a.slot.Evict(); ok {
				t.Errorf("another was claimed for %v", limit)
			}
		}
	})
}

func TestALoweredListenerLimitEvictsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(Default())
		in := open(t, q, external, 5)
		q.Configure(limited(func(c *Config) {
			c.Listeners[external] = ListenerConfig{MaxConnections: 2, CreationRate: Unlimited}
			c.MaxPerIP = 1
		}))
		if q.Exceeded(external) {
			t.Error("Exceeded() for a listener's or an address's limit")
		}
		a := connect(t, q, external, own(admin))
		for i := range 4 {
			a.mustWait(t, "above the listener's limit")
			in[i].slot.Release()
			synctest.Wait()
		}
		a.mustBeIn(t, "one is left")
	})
}

func TestLoopsAreWokenWhenThereIsMoreExcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.MaxConnections = 2 }))
		woken := 0
		q.OnExcess(func() {
			woken++
			q.State() // no lock is held
		})
		in := open(t, q, external, 2)
		if woken != 0 {
			t.Errorf("woken %d times without an excess", woken)
		}
		open(t, q, internal, 1)
		open(t, q, internal, 1)
		if woken != 2 {
			t.Errorf("woken %d times by two inter-broker connections, want 2", woken)
		}
		in[0].slot.Evict()
		in[0].slot.Release()
		if woken != 2 || !q.Exceeded(external) {
			t.Errorf("woken %d times, exceeded %v", woken, q.Exceeded(external))
		}
		q.Configure(Default())
		if q.Exceeded(external) {
			t.Error("Exceeded() without limits")
		}
	})
}

func TestALimitOfZeroEvictsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(Default())
		in := open(t, q, external, 3)
		q.Configure(limited(func(c *Config) { c.MaxConnections = 0 }))
		for _, a := range in {
			if _, ok := a.slot.Evict(); !ok {
				t.Error("a connection was not claimed")
			}
			a.slot.Release()
		}
		if q.State().Connections != 0 || q.Exceeded(external) {
			t.Errorf("state = %+v", q.State())
		}
	})
}
