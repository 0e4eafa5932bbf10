package stage

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/netlab/netns"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
)

// CPU is the processor time that the broker's process has used since it began.
func (s *Stage) CPU(ctx context.Context) time.Duration {
	GinkgoHelper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid(ctx)))
	Expect(err).NotTo(HaveOccurred())
	_, rest, _ := strings.Cut(string(text), ") ") // the name may have spaces
	fields := strings.Fields(rest)
	const user, system, ticks = 11, 12, 100
	sum := 0
	for _, i := range []int{user, system} {
		n, err := strconv.Atoi(fields[i])
		Expect(err).NotTo(HaveOccurred())
		sum += n
	}
	return time.Duration(sum) * time.Second / ticks
}

// Overflows is how many connections the broker's machine has turned away because an accept queue was full, and how many it dropped
// for that or any other reason: TcpExt's ListenOverflows and ListenDrops of the broker's namespace.
func (s *Stage) Overflows(context.Context) (overflows, drops int64) {
	GinkgoHelper()
	ns, err := s.node.Netns()
	Expect(err).NotTo(HaveOccurred())
	text := readIn(ns, "netstat")
	var names []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 0 || fields[0] != "TcpExt:":
		case names == nil:
			names = fields
		default:
			value := func(name string) int64 {
				i := slices.Index(names, name)
				Expect(i).To(And(BeNumerically(">", 0), BeNumerically("<", len(fields))), "TcpExt has no %s", name)
				n, err := strconv.ParseInt(fields[i], 10, 64)
				Expect(err).NotTo(HaveOccurred())
				return n
			}
			return value("ListenOverflows"), value("ListenDrops")
		}
	}
	Fail("the broker's namespace has no TcpExt counters")
	return 0, 0
}

// TimeWait counts the sockets in TIME_WAIT that a listener's connections have left on the broker's side, and on the side of the
// clients in a subnet: they stay with whoever closed first.
func (s *Stage) TimeWait(_ context.Context, prefix, listener string) (broker, clients int) {
	GinkgoHelper()
	port := s.listener(listener).Port
	here, err := s.node.Netns()
	Expect(err).NotTo(HaveOccurred())
	there, err := s.Network(prefix).subnet.Netns()
	Expect(err).NotTo(HaveOccurred())
	const local, remote = 1, 2
	return timeWait(here, local, port), timeWait(there, remote, port)
}

// timeWait counts the sockets of ns in TIME_WAIT that have port in a field of /proc/net/tcp.
func timeWait(ns *netns.Handle, field int, port uint16) int {
	GinkgoHelper()
	const state, timeWaitState = 3, "06"
	want, n := fmt.Sprintf(":%04X", port), 0
	for line := range strings.Lines(readIn(ns, "tcp") + readIn(ns, "tcp6")) {
		fields := strings.Fields(line)
		if len(fields) > state && fields[state] == timeWaitState && strings.HasSuffix(fields[field], want) {
			n++
		}
	}
	return n
}

// readIn reads a file of /proc/net in ns.
func readIn(ns *netns.Handle, name string) string {
	GinkgoHelper()
	var text []byte
	Expect(ns.Do(func() error {
		var err error
		text, err = os.ReadFile("/proc/thread-self/net/" + name)
		if os.IsNotExist(err) {
			return nil // no IPv6
		}
		return err
	})).To(Succeed())
	return string(text)
}

// Memory is what the broker's process holds, in bytes, as the kernel counts it.
type Memory struct {
	Resident int64 // VmRSS: now
	Peak     int64 // VmHWM: the most since the process began, or since [Stage.ResetPeak]
}

// Memory is what the broker's process holds.
func (s *Stage) Memory(ctx context.Context) Memory {
	GinkgoHelper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid(ctx)))
	Expect(err).NotTo(HaveOccurred())
	value := func(name string) int64 {
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, name+":"); ok {
				kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
				Expect(err).NotTo(HaveOccurred())
				return kib << 10
			}
		}
		Fail("the process has no " + name)
		return 0
	}
	return Memory{Resident: value("VmRSS"), Peak: value("VmHWM")}
}

// ResetPeak makes the peak of the broker's memory what it holds now, and returns that.
func (s *Stage) ResetPeak(ctx context.Context) int64 {
	GinkgoHelper()
	const resetPeak = "5" // see proc(5), clear_refs
	Expect(os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.pid(ctx)), []byte(resetPeak), 0)).To(Succeed())
	return s.Memory(ctx).Resident
}

// Since is what after has more than before, or all of it.
func Since(after, before *hdrhistogram.Histogram) *hdrhistogram.Histogram {
	h := fleet.NewHistogram()
	if after != nil {
		h.Merge(after)
	}
	if before == nil {
		return h
	}
	rest := fleet.NewHistogram()
	earlier := map[int64]int64{}
	for _, bar := range before.Distribution() {
		earlier[bar.To] = bar.Count
	}
	for _, bar := range h.Distribution() {
		if n := bar.Count - earlier[bar.To]; n > 0 {
			_ = rest.RecordValues(bar.To, n) // it was in range before
		}
	}
	return rest
}
