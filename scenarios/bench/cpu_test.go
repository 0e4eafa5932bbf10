package bench

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/brokerlab/brokerlab/internal/testenv"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// A full TLS 1.3 handshake (ECDSA P-256, X25519, no ticket): connect, handshake, close. Broker and bare crypto/tls server take
// turns, so that noise of the machine falls on both. cpu-us are those of the server's process alone.
func BenchmarkHandshake(b *testing.B) {
	const rounds = 8
	broker, bare := startBroker(b, "SSL"), startPlainGo(b, processor)
	handshakes(b, broker)
	handshakes(b, bare)
	for b.Loop() {
		var ours, theirs time.Duration
		for range rounds {
			ours += handshakes(b, broker)
			theirs += handshakes(b, bare)
		}
		b.ReportMetric(micros(ours, rounds*turn), "cpu-us/handshake")
		b.ReportMetric(micros(theirs, rounds*turn), "bare-server-cpu-us/handshake")
		b.ReportMetric(float64(ours)/float64(theirs), "ratio")
	}
}

// turn is how many handshakes are made with one server before it is the other's turn.
const turn = 1000

// handshakes makes them, a few at a time, and returns what they cost the server. A handshake has ended for both sides
// when the client's close_notify was answered by the server's end of the connection.
func handshakes(b *testing.B, s *server) time.Duration {
	b.Helper()
	config := &tls.Config{
		InsecureSkipVerify: true, // the client's part is not what is measured
		MinVersion:         tls.VersionTLS13, CurvePreferences: []tls.CurveID{tls.X25519},
	}
	before := s.cpu(b)
	var all errgroup.Group
	all.SetLimit(8)
	for range turn {
		all.Go(func() error { return handshake(s.addr, config) })
	}
	if err := all.Wait(); err != nil {
		b.Fatal(err)
	}
	return s.cpu(b) - before
}

func handshake(addr netip.AddrPort, config *tls.Config) error {
	raw, err := net.DialTimeout("tcp", addr.String(), 20*time.Second)
	if err != nil {
		return err
	}
	defer raw.Close()
	if err := raw.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	c := tls.Client(raw, config)
	if err := errors.Join(c.Handshake(), c.CloseWrite()); err != nil {
		return err
	}
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return fmt.Errorf("after the handshake: %d bytes, %w, want the end", n, err)
	}
	// A reset instead of TIME_WAIT: rounds would use up the ports.
	return raw.(*net.TCPConn).SetLinger(0)
}

// 10,000 connections at once, held: from accept to the answer of the first request, which is when a connection is listed.
// cpu-us are those of the broker's process alone.
func BenchmarkStorm(b *testing.B) {
	testenv.NeedFiles(b, held+500)
	for _, protocol := range []fleet.Protocol{fleet.Plaintext, fleet.SSL} {
		b.Run(string(protocol), func(b *testing.B) {
			for b.Loop() {
				s := startBroker(b, string(protocol))
				storm(b, s, protocol, warmUp).end(b)
				before, start := s.cpu(b), time.Now()
				f := storm(b, s, protocol, held)
				took, spent := time.Since(start), s.cpu(b)-before
				if files := s.files(b); files < held || files > 20000 {
					b.Fatalf("the broker has %d files open, want those of %d connections", files, held)
				}
				b.ReportMetric(float64(held-f.UpCount()), "failures")
				b.ReportMetric(micros(spent, held), "cpu-us/conn")
				b.ReportMetric(took.Seconds(), "s-all-up")
				f.end(b)
				_ = s.cmd.Process.Kill()
			}
		})
	}
}

// crowd is a fleet that the benchmark ends.
type crowd struct{ *fleet.Fleet }

// storm opens n clients as fast as the machine can.
func storm(b *testing.B, s *server, protocol fleet.Protocol, n int) crowd {
	b.Helper()
	f, err := fleet.Open(b.Context(), fleet.Plan{Groups: []fleet.Group{{
		Name: "storm", Count: n, Target: s.addr, Protocol: protocol, Source: fleet.Loopback(netip.MustParsePrefix("127.1.0.0/24")),
	}}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = f.Close() })
	if err := f.FirstError(); err != nil {
		b.Logf("a client: %v", err)
	}
	return crowd{f}
}

func (c crowd) end(b *testing.B) {
	b.Helper()
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
}

// files is how many files the process has open.
func (s *server) files(b *testing.B) int {
	b.Helper()
	names, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	return len(names)
}

// The whole resident set of a broker that nobody has used yet, mapped files (the binary's own pages) included, in
// 10^6 bytes.
func BenchmarkIdleBroker(b *testing.B) {
	for _, accounting := range []string{"off", "auto"} {
		b.Run("kernel.accounting="+accounting, func(b *testing.B) {
			for b.Loop() {
				s := startBroker(b, "PLAINTEXT", "kernel.accounting="+accounting)
				s.settled(b)
				b.ReportMetric(float64(s.status(b, "VmRSS:"))/1e6, "MB")
				b.ReportMetric(float64(s.memory(b))/1e6, "MB-anonymous")
				_ = s.cmd.Process.Kill()
			}
		})
	}
}

func micros(d time.Duration, n int) float64 { return float64(d.Nanoseconds()) / 1e3 / float64(n) }
