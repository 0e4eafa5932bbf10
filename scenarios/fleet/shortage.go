package fleet

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ShortageError says that the client's side cannot hold the fleet. It is found before the first socket is made.
type ShortageError struct {
	What       string // what is short
	Need, Have int64
	Hint       string
}

// ShortageText begins the text of every [ShortageError], by which it is known where only its text came from a worker.
const ShortageText = "the clients need "

func (e *ShortageError) Error() string {
	return fmt.Sprintf(ShortageText+"%d %s, this side has %d: %s", e.Need, e.What, e.Have, e.Hint)
}

const (
	// spareFDs is left to the rest of the process.
	spareFDs = 200
	// clientBytes is what a client may cost in this process and, together with its server's end, in the kernel: an idle
	// TLS client needs about 6 KB and a pair of sockets about 8 KB, the rest is room for bursts.
	clientBytes = 24 << 10
)

// check compares what plan needs with what is there. It joins all shortages.
func check(plan *Plan) error {
	return errors.Join(checkFDs(plan.Connections()), checkMemory(plan.Connections()), checkPorts(plan))
}

func checkFDs(n int) error {
	free, err := freeFDs()
	if err != nil {
		return err
	}
	if int64(n) > free {
		return &ShortageError{
			What: "file descriptors", Need: int64(n), Have: max(free, 0),
			Hint: "raise the limit (ulimit -Hn) or split the fleet over worker processes",
		}
	}
	return nil
}

// freeFDs is how many more file descriptors the process may open, less what is left to the rest of it. The soft limit is the
// hard one already: Go raises it when a program starts.
func freeFDs() (int64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("read the limit of open files: %w", err)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0, fmt.Errorf("count open files: %w", err)
	}
	return int64(min(limit.Cur, 1<<31)) - int64(len(open)) - spareFDs, nil
}

func checkMemory(n int) error {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return fmt.Errorf("read available memory: %w", err)
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:")
		if !ok {
			continue
		}
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return fmt.Errorf("read available memory: %w", err)
		}
		if need := int64(n) * clientBytes; need > kb<<10 {
			return &ShortageError{What: "bytes of memory", Need: need, Have: kb << 10, Hint: "use fewer clients"}
		}
		return nil
	}
	return nil // an odd kernel: nothing to compare with
}

// checkPorts counts connections by source address and target: each pair has one range of ephemeral ports.
func checkPorts(plan *Plan) error {
	type pair struct {
		addr   netip.Addr
		target netip.AddrPort
	}
	need := map[pair]int{}
	for i := range plan.Groups {
		g := &plan.Groups[i]
		first, last, err := portRange(g.Source)
		if err != nil {
			return err
		}
		for k := range g.Count {
			p := pair{target: g.Target}
			if g.Source != nil {
				p.addr = g.Source.Addr(k)
			}
			need[p]++
			if have := last - first + 1; need[p] > have {
				return &ShortageError{
					What: fmt.Sprintf("ports from %v to %v", p.addr, p.target), Need: int64(g.Count), Have: int64(have),
					Hint: "use more source addresses or widen net.ipv4.ip_local_port_range",
				}
			}
		}
	}
	return nil
}

func portRange(s Source) (first, last int, err error) {
	if r, ok := s.(PortRanger); ok {
		return r.PortRange()
	}
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, 0, fmt.Errorf("read the range of ephemeral ports: %w", err)
	}
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil {
		return 0, 0, fmt.Errorf("read the range of ephemeral ports from %q: %w", text, err)
	}
	return first, last, nil
}
