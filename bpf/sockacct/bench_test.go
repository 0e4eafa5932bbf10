package sockacct

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkConnection makes short connections (one request, one answer) to three servers in turn, so that noise of the
// machine falls on all alike: with no programs loaded, with programs that watch other ports, and watched by one owner. It
// reports the CPU that a connection costs in each, both ends and the kernel's share together.
func BenchmarkConnection(b *testing.B) {
	s := newSpace(b)
	l, port := s.listen(b, "127.0.0.1:0")
	server := echo(l)
	defer func() {
		quit(l)
		server.Wait()
	}()
	// Programs and caches are cold after a load, so that some connections come and go before each round.
	const warmUp, round = 100, 500
	cost := map[string][]time.Duration{} // a connection's, by rounds
	visit := func(times int) {
		for range times {
			if err := s.visit(netip.Addr{}, loopback(port)); err != nil {
				b.Fatal(err)
			}
		}
	}
	run := func(name string) {
		visit(warmUp)
		before := cpu(b)
		visit(round)
		cost[name] = append(cost[name], (cpu(b)-before)/round)
	}
	for b.Loop() {
		run("unloaded")
		c, err := Load(Options{})
		if err != nil {
			b.Skip(err)
		}
		run("unwatched")
		watch(b, c, s, port, 1)
		run("watched")
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
	// Medians: a round in which the machine did something else must not count.
	micros := func(name string) float64 {
		slices.Sort(cost[name])
		return float64(cost[name][len(cost[name])/2].Nanoseconds()) / 1e3
	}
	unloaded := micros("unloaded")
	b.ReportMetric(unloaded, "cpu-us/conn")
	for _, name := range []string{"unwatched", "watched"} {
		added := micros(name) - unloaded
		b.ReportMetric(added, "added-us/"+name+"-conn")
		b.ReportMetric(100*added/unloaded, "%-"+name)
	}
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
