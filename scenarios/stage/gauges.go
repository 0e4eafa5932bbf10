package stage

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/netlab/netns"
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
