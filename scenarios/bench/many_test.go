package bench

import (
	"context"
	"math"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/internal/testenv"
	"github.com/brokerlab/brokerlab/scenarios/connbench"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// 50,000 idle TLS connections at once, over so many broker processes that each stays below 20,000 files, as the command bench
// connections makes them. B/conn is what all processes have grown by, at 10,000 connections and at 50,000; memory that grows faster than
// connections would show as a difference.
func BenchmarkManyBrokers(b *testing.B) {
	const brokers, few, many = 4, 10000, 50000
	testenv.NeedFiles(b, many/brokers+1000)
	binary := brokerBinary(b)
	for b.Loop() {
		o := &connbench.Options{
			Protocol: fleet.SSL, Sources: []fleet.SourceSpec{{Prefix: netip.MustParsePrefix("127.1.0.0/24")}},
			Steps: []int{few, many}, Parallel: 48, Timeout: time.Minute, WarmUp: brokers * warmUp, Settle: 3 * time.Second,
			Worker: func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, binary, "fleet-worker") },
		}
		for range brokers {
			s := startBroker(b, "SSL")
			o.Targets = append(o.Targets, connbench.Target{Name: s.addr.String(), Addr: s.addr, PID: s.cmd.Process.Pid, Pin: s.ca})
		}
		r, err := connbench.Run(b.Context(), o)
		if err != nil {
			b.Fatal(err)
		}
		b.Log(r.Verdict.Text)
		if len(r.Steps) != 2 || r.Steps[0].SettledBytes == nil || r.Steps[1].SettledBytes == nil {
			b.Fatalf("the run ended early: %+v", r.Verdict)
		}
		at10k, at50k := *r.Steps[0].SettledBytes, *r.Steps[1].SettledBytes
		b.ReportMetric(float64(many-r.Verdict.Connections), "failures")
		b.ReportMetric(at10k, "B/conn-at-10000")
		b.ReportMetric(at50k, "B/conn")
		b.ReportMetric(100*math.Abs(at50k/at10k-1), "%-difference")
		b.ReportMetric(r.Steps[0].Seconds+r.Steps[1].Seconds, "s-all-up")
	}
}
