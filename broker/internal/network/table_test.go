package network

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/broker/acl"
)

func TestTableHoldsWhatWasAddedAndNotRemoved(t *testing.T) {
	var tab table
	rng := rand.New(rand.NewPCG(1, 2))
	want := map[*Conn]bool{}
	var conns []*Conn
	for range 30_000 {
		if len(conns) > 0 && rng.IntN(3) == 0 {
			i := rng.IntN(len(conns))
			c := conns[i]
			tab.remove(c)
			delete(want, c)
			conns = slices.Delete(conns, i, i+1)
			if got := tab.find(c.slot, c.generation); got != nil {
				t.Fatalf("find(%d, %d) = %p after remove, want nil", c.slot, c.generation, got)
			}
			continue
		}
		c := new(Conn)
		tab.add(c)
		want[c] = true
		conns = append(conns, c)
		if got := tab.find(c.slot, c.generation); got != c {
			t.Fatalf("find(%d, %d) = %p, want %p", c.slot, c.generation, got, c)
		}
	}
	last := int32(-1)
	for c := range tab.all() {
		if !want[c] {
			t.Fatalf("the walk shows %p, which is not there", c)
		}
		if c.slot <= last {
			t.Fatalf("slot %d comes after %d", c.slot, last)
		}
		last = c.slot
		delete(want, c)
	}
	if len(want) > 0 {
		t.Errorf("the walk missed %d connections", len(want))
	}
	if c := tab.find(-1, 0); c != nil {
		t.Errorf("find(-1) = %p, want nil", c)
	}
	if c := tab.find(1<<30, 0); c != nil {
		t.Errorf("find(1<<30) = %p, want nil", c)
	}
}

func TestIdleListKeepsTheOrderOfActivity(t *testing.T) {
	var list idleList
	conns := make([]*Conn, 100)
	for i := range conns {
		conns[i] = new(Conn)
		list.touch(conns[i], int64(i))
	}
	want := slices.Clone(conns)
	rng := rand.New(rand.NewPCG(3, 4))
	for at := int64(100); at < 1000; at++ {
		c := conns[rng.IntN(len(conns))]
		i := slices.Index(want, c)
		if at%10 == 0 && i >= 0 {
			list.remove(c)
			want = slices.Delete(want, i, i+1)
			continue
		}
		list.touch(c, at) // of one that was removed: nothing
		if i >= 0 {
			want = append(slices.Delete(want, i, i+1), c)
		}
	}
	got, _, _ := list.due(1 << 60)
	if !slices.Equal(got, want) {
		t.Errorf("the list has %d connections in another order than their activity, want %d", len(got), len(want))
	}
	half := want[len(want)/2].lastActive.Load()
	due, next, ok := list.due(half)
	if len(due) != len(want)/2+1 || !ok || next != want[len(want)/2+1].lastActive.Load() {
		t.Errorf("due(%d) = %d connections, next %d %t", half, len(due), next, ok)
	}
}

// BenchmarkListing walks a table of 100,000 connections that has 5,000 changes
// a second, and makes the texts of each row that are not kept: its id and its
// client's address.
func BenchmarkListing(b *testing.B) {
	const entries, perSecond = 100_000, 5000
	var tab table
	lp := &loop{listener: &listener{Listener: Listener{Name: "SSL", Protocol: SSL}}, processor: 1}
	nobody := &Identity{Type: "User", Name: "ANONYMOUS"}
	fresh := func(i int) *Conn {
		c := &Conn{
			loop: lp, index: int32(i),
			local:  netip.MustParseAddrPort("10.0.0.1:9092"),
			remote: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), uint16(i)),
		}
		c.identity.Store(nobody)
		return c
	}
	conns := make([]*Conn, entries)
	for i := range conns {
		conns[i] = fresh(i)
		tab.add(conns[i])
	}
	stop := make(chan struct{})
	var writer sync.WaitGroup
	var slowest time.Duration
	writer.Go(func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for i := 0; ; {
			select {
			case <-stop:
				return
			case <-tick.C:
			}
			for range perSecond / 1000 {
				at := i % entries
				c := fresh(i)
				begin := time.Now()
				tab.remove(conns[at])
				tab.add(c)
				slowest = max(slowest, time.Since(begin))
				conns[at] = c
				i += 7919
			}
		}
	})
	rows := make([]byte, 0, entries*128) // a listing asks for its room once, too
	var took []time.Duration
	for b.Loop() {
		begin := time.Now()
		rows = rows[:0]
		n := 0
		for c := range tab.all() {
			id := c.Identity()
			rows = c.AppendID(rows)
			rows = append(rows, id.Type...)
			rows = append(rows, id.Name...)
			rows = acl.AppendHostText(rows, c.Remote().Addr())
			n++
		}
		took = append(took, time.Since(begin))
		if n < entries-perSecond {
			b.Fatalf("the walk shows %d of %d", n, entries)
		}
	}
	close(stop)
	writer.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms/listing")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms/listing")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms/listing")
	b.ReportMetric(float64(slowest.Microseconds())/1000, "max-ms/change")
}

func TestEveryReasonHasANameOfItsOwn(t *testing.T) {
	seen := map[string]Reason{}
	for _, r := range Reasons() {
		name := r.String()
		if other, ok := seen[name]; ok || name == "" || name == "unknown" || name == "none" {
			t.Errorf("Reason(%d) = %q, which is %v's", r, name, other)
		}
		seen[name] = r
	}
	if got := Reason(200).String(); got != "unknown" {
		t.Errorf("Reason(200) = %q, want unknown", got)
	}
}

func TestProtocolNamesAreKafkas(t *testing.T) {
	for p, want := range []struct {
		name      string
		tls, sasl bool
	}{{"PLAINTEXT", false, false}, {"SSL", true, false}, {"SASL_PLAINTEXT", false, true}, {"SASL_SSL", true, true}} {
		got, err := ParseProtocol(want.name)
		if err != nil || got != Protocol(p) || got.TLS() != want.tls || got.SASL() != want.sasl || got.String() != want.name {
			t.Errorf("ParseProtocol(%q) = %v, %v", want.name, got, err)
		}
	}
	if _, err := ParseProtocol("ssl"); err == nil {
		t.Error("ParseProtocol(ssl) = nil error, want capitals")
	}
}
