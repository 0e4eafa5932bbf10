package quota

import (
	"context"
	"net/netip"
	"testing"
	"time"
)

// crowd is that many addresses with a connection each.
func crowd(b *testing.B, q *Connections, n int) {
	b.Helper()
	for i := range n {
		if _, _, err := q.Acquire(b.Context(), external, netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})); err != nil {
			b.Fatal(err)
		}
	}
}

// admissions measures what one admission and its release cost: the decision of
// an acceptor, and what a loop does when it closes. P15's question is whether
// that allocates: it must not.
func admissions(b *testing.B, c Config, ipRate, addresses int) {
	b.Helper()
	q := New(Window{Size: 10 * time.Millisecond}, c) // so that all samples are in use
	q.AddListener(external, true)
	q.AddListener(internal, false)
	q.SetIPRates(ipRate, nil)
	crowd(b, q, addresses)
	ctx, cancel := context.WithCancel(b.Context()) // as an acceptor's
	defer cancel()
	from := make([]netip.Addr, 256)
	for i := range from {
		from[i] = netip.AddrFrom4([4]byte{10, 0, 0, byte(i)})
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		slot, _, err := q.Acquire(ctx, external, from[i&255])
		if err != nil {
			b.Fatal(err)
		}
		slot.Release()
		i++
	}
}

func BenchmarkAcquire(b *testing.B) {
	all := limited(func(c *Config) {
		c.MaxConnections, c.MaxSSLConnections, c.MaxPerIP = 1_000_000, 500_000, 1000
		c.PerIP = map[netip.Addr]int{addr("192.0.2.1"): 5}
		c.Listeners[external] = ListenerConfig{MaxConnections: 900_000, CreationRate: Unlimited - 1}
		c.CreationRate = Unlimited - 1
	})
	b.Run("limits=none/addresses=256", func(b *testing.B) { admissions(b, Default(), Unlimited, 0) })
	b.Run("limits=none/addresses=10000", func(b *testing.B) { admissions(b, Default(), Unlimited, 10_000) })
	b.Run("limits=all/addresses=256", func(b *testing.B) { admissions(b, all, Unlimited-1, 0) })
	b.Run("limits=all/addresses=10000", func(b *testing.B) { admissions(b, all, Unlimited-1, 10_000) })
}

// A listener for each core, at the same time.
func BenchmarkAcquireParallel(b *testing.B) {
	q := New(Window{}, limited(func(c *Config) { c.MaxPerIP = 1000 }))
	q.AddListener(external, false)
	crowd(b, q, 10_000)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			slot, _, err := q.Acquire(b.Context(), external, own(external))
			if err != nil {
				b.Fatal(err)
			}
			slot.Release()
		}
	})
}

// What each turn of a loop pays.
func BenchmarkExceeded(b *testing.B) {
	for name, maximum := range map[string]int{"below": 100, "above": 1} {
		b.Run(name, func(b *testing.B) {
			q := New(Window{}, Default())
			q.AddListener(external, false)
			crowd(b, q, 10)
			q.Configure(limited(func(c *Config) { c.MaxConnections = maximum }))
			b.ReportAllocs()
			for b.Loop() {
				q.Exceeded(external)
			}
		})
	}
}

// A slot that is passed on to a waiter of another listener.
func BenchmarkHandOver(b *testing.B) {
	q := New(Window{}, limited(func(c *Config) { c.MaxConnections = 1 }))
	q.AddListener(external, false)
	slot, _, err := q.Acquire(b.Context(), external, own(external))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		next := make(chan Slot, 1)
		go func() {
			s, _, _ := q.Acquire(b.Context(), external, own(external))
			next <- s
		}()
		for waiting := false; !waiting; {
			q.mu.Lock()
			waiting = len(q.waiting) > 0
			q.mu.Unlock()
		}
		slot.Release()
		slot = <-next
	}
}

// What it costs to look on with many addresses.
func BenchmarkState(b *testing.B) {
	q := New(Window{}, Default())
	q.AddListener(external, false)
	q.SetIPRates(Unlimited-1, nil)
	crowd(b, q, 10_000)
	b.Run("State", func(b *testing.B) {
		for b.Loop() {
			q.State()
		}
	})
	b.Run("EachIP", func(b *testing.B) {
		for b.Loop() {
			q.EachIP(func(netip.Addr, int) bool { return true })
		}
	})
	b.Run("EachIPRate", func(b *testing.B) {
		for b.Loop() {
			q.EachIPRate(func(netip.Addr, float64) bool { return true })
		}
	})
}

// An admission is within a microsecond, and allocates nothing, with everything
// limited and 10,000 addresses there. The time is the benchmark's to tell; what
// it allocates is held here.
func TestAdmissionsAllocateNothing(t *testing.T) {
	q := New(Window{Size: time.Hour}, limited(func(c *Config) {
		c.MaxConnections, c.MaxSSLConnections, c.MaxPerIP, c.CreationRate = 1_000_000, 1_000_000, 1000, Unlimited-1
		c.PerIP = map[netip.Addr]int{addr("192.0.2.1"): 5}
	}))
	q.AddListener(external, true)
	q.SetIPRates(Unlimited-1, nil)
	for i := range 10_000 {
		if _, _, err := q.Acquire(t.Context(), external, netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	from := addr("10.0.1.1")
	if got := testing.AllocsPerRun(1000, func() {
		slot, _, _ := q.Acquire(ctx, external, from)
		q.Exceeded(external)
		slot.Release()
	}); got != 0 {
		t.Errorf("%v allocations an admission, want none", got)
	}
	// Neither does an address that comes and goes.
	q.SetIPRates(Unlimited, nil)
	if got := testing.AllocsPerRun(1000, func() {
		slot, _, _ := q.Acquire(ctx, external, addr("192.0.2.7"))
		slot.Release()
	}); got != 0 {
		t.Errorf("%v allocations an admission of an address that comes and goes, want none", got)
	}
}
