package sockacct

import (
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkConnection makes short connections (one request, one answer) to three servers in turn, so that noise of the
// machine falls on all alike: with no programs loaded, with programs that watch other ports, and watched. It reports the CPU
// that a connection costs in each, both ends and the kernel's share together.
func BenchmarkConnection(b *testing.B) {
	s := newSpace(b)
	l, port := s.listen(b, "127.0.0.1:0")
	server := echo(l)
	defer func() {
		quit(l)
		server.Wait()
	}()
	const round = 200 // connections before it is the next one's turn
	cost := map[string]time.Duration{}
	n := 0
	run := func(name string) {
		before := cpu(b)
		for range round {
			if err := s.visit(netip.Addr{}, loopback(port)); err != nil {
				b.Fatal(err)
			}
		}
		cost[name] += cpu(b) - before
	}
	for b.Loop() {
		n += round
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
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(n) }
	b.ReportMetric(per(cost["unloaded"]), "cpu-us/conn")
	b.ReportMetric(per(cost["unwatched"]-cost["unloaded"]), "added-us/unwatched-conn")
	b.ReportMetric(per(cost["watched"]-cost["unloaded"]), "added-us/watched-conn")
}

func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
