package bench

import (
	"fmt"
	"net/netip"
	"os/exec"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/brokerlab/brokerlab/internal/testenv"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// How many connections are held while memory is read, and how many come and go before, so that what a first connection
// allocates for all is not counted as theirs.
const (
	held   = 10000
	warmUp = 1000
)

// An idle connection at 10,000 of them, each after one Metadata request of 16 KB. B/conn is the growth of the process's
// resident memory by a connection, the engine's share included.
func BenchmarkIdle(b *testing.B) {
	testenv.NeedFiles(b, held+500)
	b.Run("TLS", func(b *testing.B) {
		for b.Loop() {
			ours := idle(b, startBroker(b, "SSL"), fleet.SSL)
			comparison := idle(b, startPlainGo(b, liveMemory), fleet.SSL)
			b.ReportMetric(ours, "B/conn")
			b.ReportMetric(comparison, "goroutine-server-B/conn")
			b.ReportMetric(ours/comparison, "ratio")
		}
	})
	b.Run("plaintext", func(b *testing.B) {
		for b.Loop() {
			b.ReportMetric(idle(b, startBroker(b, "PLAINTEXT"), fleet.Plaintext), "B/conn")
		}
	})
}

// idle is the memory of s by a connection, once its clients are idle.
func idle(b *testing.B, s *server, protocol fleet.Protocol) float64 {
	b.Helper()
	burst(b, s, protocol, warmUp)
	before := s.settled(b)
	f := open(b, s, protocol, held)
	after := s.settled(b)
	if up := f.Stats().Up; up != held {
		b.Fatalf("%d of %d clients are up after they were idle: %v", up, held, f.FirstError())
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	_ = s.cmd.Process.Kill()
	return float64(after-before) / held
}

// burst opens n clients and closes them again.
func burst(b *testing.B, s *server, protocol fleet.Protocol, n int) {
	b.Helper()
	if err := open(b, s, protocol, n).Close(); err != nil {
		b.Fatal(err)
	}
}

// open opens n clients, each of which sends one Metadata request of 16 KB.
func open(b *testing.B, s *server, protocol fleet.Protocol, n int) *fleet.Fleet {
	b.Helper()
	f, err := fleet.Open(b.Context(), fleet.Plan{Groups: []fleet.Group{{
		Name: "idle", Count: n, Target: s.addr, Protocol: protocol,
		Source: fleet.Loopback(netip.MustParsePrefix("127.1.0.0/24")), TLS: fleet.TLS{CA: s.ca},
	}}, Parallel: 32})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	if err := f.FirstError(); err != nil {
		b.Fatal(err)
	}
	var calls errgroup.Group
	calls.SetLimit(16)
	up := f.Up()
	for i := range up {
		calls.Go(func() error {
			_, err := f.Call(b.Context(), up[i].ID, bigMetadata())
			return err
		})
	}
	if err := calls.Wait(); err != nil {
		b.Fatal(err)
	}
	return f
}

// bigMetadata asks for topics that are not there, in 16 KB.
func bigMetadata() *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(9)
	req.AllowAutoTopicCreation = false
	for i := range 16 << 10 / 100 {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = new(fmt.Sprintf("absent-%090d", i))
		req.Topics = append(req.Topics, topic)
	}
	return req
}

// From exec to the first answered request, with a data folder that is new.
func BenchmarkReady(b *testing.B) {
	binary := brokerBinary(b)
	for b.Loop() {
		addr, dir := freeAddr(b), b.TempDir()
		start := time.Now()
		cmd := exec.CommandContext(b.Context(), binary, "broker", "-o", "node.id=1", "-o", "listeners=PLAINTEXT://"+addr.String(),
			"-o", "log.dirs="+dir, "-o", "kernel.accounting=auto")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		if err := waitAnswering(b.Context(), addr); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms-to-ready")
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
