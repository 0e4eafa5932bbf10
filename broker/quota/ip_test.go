package quota

import (
	"errors"
	"net/netip"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnAddressIsTheSameHoweverItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) {
			c.PerIP = map[netip.Addr]int{addr("::ffff:192.0.2.1"): 2, addr("fe80::1%3"): 1}
		}))
		connect(t, q, external, addr("192.0.2.1")).mustBeIn(t, "first")
		connect(t, q, external, addr("::ffff:192.0.2.1")).mustBeIn(t, "second, mapped")
		var many *TooManyError
		if a := connect(t, q, external, addr("192.0.2.1")); !errors.As(a.err, &many) || many.Max != 2 {
			t.Errorf("third: %v", a.err)
		}
		connect(t, q, external, addr("fe80::1%2")).mustBeIn(t, "first")
		if a := connect(t, q, external, addr("fe80::1")); !errors.As(a.err, &many) || many.Max != 1 {
			t.Errorf("second of another zone: %v", a.err)
		}
		if got := q.IP(addr("::ffff:192.0.2.1")); got.Connections != 3 || got.Max != 2 || !got.Override {
			t.Errorf("IP() = %+v", got)
		}
		if got := q.IP(addr("192.0.2.9")); got != (IPState{Max: Unlimited, Rate: Unlimited}) {
			t.Errorf("IP() of an unknown address = %+v", got)
		}
	})
}

func TestZeroPerAddressAdmitsOnlyOverrides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) {
			c.MaxPerIP = 0
			c.PerIP = map[netip.Addr]int{addr("127.0.0.1"): 5, addr("127.0.0.2"): -1}
		}))
		var many *TooManyError
		for range 5 {
			connect(t, q, external, addr("127.0.0.1")).mustBeIn(t, "under the override")
		}
		for _, from := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"} {
			if a := connect(t, q, external, addr(from)); !errors.As(a.err, &many) {
				t.Errorf("%s: %v, want too many", from, a.err)
			}
		}
	})
}

// No address is remembered once its connections are gone, unless its rate is
// measured.
func TestAddressesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(limited(func(c *Config) { c.MaxPerIP = 1 }))
		var slots []*Slot
		for i := range 1000 {
			for range 2 { // the second is refused
				s, _, _ := q.Acquire(t.Context(), external, netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}))
				slots = append(slots, &s)
			}
		}
		if s := q.State(); s.IPs != 1000 || len(q.ips.entries) != 1000 {
			t.Fatalf("addresses = %d, entries %d, want 1000", s.IPs, len(q.ips.entries))
		}
		for _, s := range slots {
			s.Release()
		}
		if s := q.State(); s.IPs != 0 || len(q.ips.entries) != 0 || len(q.ips.spare) > spareEntries {
			t.Errorf("addresses = %d, entries %d, spare %d: want none left", s.IPs, len(q.ips.entries), len(q.ips.spare))
		}
	})
}

// The memory of a burst of addresses is given back.
func TestTheMemoryOfManyAddressesIsGivenBack(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	q := New(Window{}, Default())
	q.AddListener(external, false)
	stays, _, err := q.Acquire(t.Context(), external, addr("192.0.2.1"))
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	slots := make([]Slot, 200_000)
	for i := range slots {
		slots[i], _, _ = q.Acquire(t.Context(), external, netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	full := heap()
	for i := range slots {
		slots[i].Release()
	}
	after := heap()
	t.Logf("%d bytes an address, %d kept of all", (full-before)/200_000, after-before)
	if kept := after - before; kept > 1<<20 {
		t.Errorf("%d bytes are kept of %d", kept, full-before)
	}
	stays.Release()
	if len(q.ips.entries) != 0 {
		t.Errorf("%d entries are left", len(q.ips.entries))
	}
}

func rates(q *Connections) map[netip.Addr]float64 {
	all := map[netip.Addr]float64{}
	q.EachIPRate(func(a netip.Addr, perSecond float64) bool {
		all[a] = perSecond
		return true
	})
	return all
}

// An address's rate is measured from its first connection under a quota until
// an hour after its last one.
func TestSensorsOfAddressesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(Default())
		before := open(t, q, external, 1)[0]
		q.SetIPRates(10, nil)
		if len(rates(q)) != 0 {
			t.Errorf("sensors = %v, want none before a connection under the quota", rates(q))
		}
		a := open(t, q, external, 1)[0]
		b := connect(t, q, admin, own(admin))
		if got := rates(q); len(got) != 2 || got[own(external)] != 1 {
			t.Errorf("sensors = %v, want two, one connection a second each", got)
		}
		pass(30 * time.Minute)
		q.SetIPRates(Unlimited, nil)
		c := open(t, q, external, 1)[0] // not measured any more
		q.SetIPRates(10, map[netip.Addr]int{own(external): Unlimited})
		d := connect(t, q, admin, own(admin))
		pass(30 * time.Minute)
		if got := rates(q); len(got) != 2 {
			t.Errorf("sensors after exactly an hour = %v, want two", got)
		}
		pass(time.Millisecond)
		if got := rates(q); len(got) != 1 || got[own(admin)] != 0 {
			t.Errorf("sensors after more than an hour = %v, want that of %v", got, own(admin))
		}
		for _, x := range []*attempt{before, a, b, c, d} {
			x.mustBeIn(t, "connection")
			x.slot.Release()
		}
		if got := len(q.ips.entries); got != 1 {
			t.Errorf("entries = %d, want the one with a sensor", got)
		}
		pass(time.Hour)
		connect(t, q, external, own(external)).slot.Release() // whoever comes clears up
		if got := len(q.ips.entries); got != 0 {
			t.Errorf("entries = %d, want none", got)
		}
	})
}

// A sensor that has expired measures nothing more, also when it is not dropped
// yet and its windows are longer than an hour.
func TestAnExpiredSensorBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Window{Samples: 2, Size: 3 * time.Hour}, Default())
		q.AddListener(external, false)
		q.SetIPRates(10, nil)
		addrs := []netip.Addr{addr("192.0.2.1"), addr("192.0.2.2"), addr("192.0.2.3"), addr("192.0.2.4")}
		for _, a := range addrs {
			connect(t, q, external, a)
		}
		pass(time.Hour + time.Millisecond)
		last := addrs[len(addrs)-1] // one connection drops two sensors, and those of others
		connect(t, q, external, last)
		if got, want := q.IP(last).CreationRate, 1/(3*time.Hour).Seconds(); got != want {
			t.Errorf("rate = %v, want one connection in a window: %v", got, want)
		}
	})
}

// Addresses that keep changing keep no more sensors than an hour's.
func TestChangingAddressesDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(Default())
		q.SetIPRates(5, nil)
		for i := range 5000 {
			s, _, err := q.Acquire(t.Context(), external, netip.AddrFrom4([4]byte{10, 2, byte(i >> 8), byte(i)}))
			if err != nil {
				t.Fatal(err)
			}
			s.Release()
			pass(10 * time.Second)
			if got := len(q.ips.entries); got > 362 {
				t.Fatalf("%d entries, want no more than an hour has connections", got)
			}
		}
	})
}

func TestEachIPTellsAddressesWithConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withListeners(Default())
		q.SetIPRates(Unlimited, map[netip.Addr]int{addr("192.0.2.1"): 5})
		open(t, q, external, 2)
		open(t, q, admin, 3)
		connect(t, q, external, addr("192.0.2.1")).slot.Release() // a sensor is left
		got := map[netip.Addr]int{}
		q.EachIP(func(a netip.Addr, n int) bool {
			got[a] = n
			q.IP(a) // no lock is held
			return true
		})
		if len(got) != 2 || got[own(external)] != 2 || got[own(admin)] != 3 {
			t.Errorf("EachIP() = %v", got)
		}
		calls := 0
		q.EachIP(func(netip.Addr, int) bool { calls++; return false })
		if calls != 1 {
			t.Errorf("called %d times after false, want once", calls)
		}
	})
}
