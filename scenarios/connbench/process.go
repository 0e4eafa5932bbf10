package connbench

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// process is one that is measured from outside, by its id.
type process int

// cpu is the processor time that all its threads have had, to the nanosecond.
func (p process) cpu() (time.Duration, error) {
	const ofProcess = 2 // CPUCLOCK_SCHED of linux/posix-timers.h: what the scheduler gave it
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^int(p)<<3|ofProcess), &t); err != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %w", p, err)
	}
	return time.Duration(t.Nano()), nil
}

// memory is resident memory in bytes. growing leaves mapped files out: they are the program's, not the connections'.
type memory struct{ all, growing int64 }

func (p process) memory() (memory, error) {
	fields, err := p.status("VmRSS:", "RssAnon:", "RssShmem:")
	if err != nil {
		return memory{}, err
	}
	// Shared memory is where some of Java's collectors have the heap.
	return memory{all: fields["VmRSS:"], growing: fields["RssAnon:"] + fields["RssShmem:"]}, nil
}

// status reads sizes of /proc/PID/status in bytes.
func (p process) status(names ...string) (map[string]int64, error) {
	f, err := os.Open(p.path("status"))
	if err != nil {
		return nil, fmt.Errorf("read the memory of process %d: %w", p, err)
	}
	defer f.Close() //nolint:errcheck // nothing was written
	found := map[string]int64{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		for _, name := range names {
			rest, ok := strings.CutPrefix(lines.Text(), name)
			if !ok {
				continue
			}
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("read the memory of process %d: %w", p, err)
			}
			found[name] = kb << 10
		}
	}
	if len(found) != len(names) {
		return nil, fmt.Errorf("read the memory of process %d: it has ended", p)
	}
	return found, nil
}

// files is how many files the process has open, and how many it may have.
func (p process) files() (open, limit int, err error) {
	names, err := os.ReadDir(p.path("fd"))
	if err != nil {
		return 0, 0, fmt.Errorf("count the open files of process %d: %w", p, err)
	}
	text, err := os.ReadFile(p.path("limits"))
	if err != nil {
		return 0, 0, fmt.Errorf("read the limits of process %d: %w", p, err)
	}
	_, rest, ok := strings.Cut(string(text), "Max open files")
	if _, err := fmt.Sscan(rest, &limit); !ok || err != nil {
		limit = 0 // unlimited
	}
	return len(names), limit, nil
}

// program is the name of what the process runs.
func (p process) program() string {
	name, err := os.Readlink(p.path("exe"))
	if err != nil {
		return ""
	}
	return filepath.Base(strings.TrimSuffix(name, " (deleted)"))
}

func (p process) java() bool { return p.program() == "java" }

// alive is nil while the process runs.
func (p process) alive() error {
	err := unix.Kill(int(p), 0)
	if errors.Is(err, unix.EPERM) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", p, err)
	}
	return nil
}

func (p process) path(name string) string {
	return "/proc/" + strconv.Itoa(int(p)) + "/" + name
}

// busy is the processor time of all that runs on this machine, and how many processors it has.
func busy() (spent time.Duration, processors int, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, fmt.Errorf("read the machine's processor time: %w", err)
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs on Linux
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) > 8 && fields[0] == "cpu":
			for _, i := range []int{1, 2, 3, 6, 7} { // user, nice, system, irq, softirq
				n, err := strconv.ParseInt(fields[i], 10, 64)
				if err != nil {
					return 0, 0, fmt.Errorf("read the machine's processor time: %w", err)
				}
				spent += time.Duration(n) * tick
			}
		case len(fields) > 0 && strings.HasPrefix(fields[0], "cpu"):
			processors++
		}
	}
	return spent, processors, nil
}

// kernelMemory is what the kernel of this machine holds for sockets, of all programs and both ends of local connections.
type kernelMemory struct {
	Slab    int64 `json:"slabBytes"`   // objects that belong to a connection
	Buffers int64 `json:"bufferBytes"` // what is queued in sockets
	Sockets int64 `json:"sockets"`     // of TCP, of all programs on this machine
}

func (k *kernelMemory) total() int64 { return k.Slab + k.Buffers }

// by is what connections cost the kernel that came since before, n of them. ok is false where other programs opened or closed sockets
// meanwhile: then it is no connection's cost.
func (k *kernelMemory) by(before *kernelMemory, n int) (bytes float64, ok bool) {
	const least, most = 0.9, 2.2 // one end here, or both, and a few
	sockets := float64(k.Sockets-before.Sockets) / float64(n)
	bytes = float64(k.total()-before.total()) / float64(n)
	return bytes, sockets > least && sockets < most && bytes > 0
}

// readKernelMemory needs root for the slabs; without them the error says so.
func readKernelMemory() (kernelMemory, error) {
	k := kernelMemory{}
	text, err := os.ReadFile("/proc/net/sockstat")
	if err != nil {
		return k, fmt.Errorf("read the kernel's sockets: %w", err)
	}
	_, rest, _ := strings.Cut(string(text), "TCP: inuse ")
	_, rest, _ = strings.Cut(rest, " mem ")
	var pages int64
	if _, err = fmt.Sscan(rest, &pages); err != nil {
		return k, fmt.Errorf("read the kernel's sockets: %w", err)
	}
	k.Buffers = pages * int64(os.Getpagesize())
	slabs, err := os.ReadFile("/proc/slabinfo")
	if err != nil {
		return k, fmt.Errorf("read the kernel's slabs: %w", err)
	}
	for line := range strings.Lines(string(slabs)) {
		var name string
		var active, total, size int64
		if _, err := fmt.Sscan(line, &name, &active, &total, &size); err != nil || !ofConnection(name) {
			continue
		}
		k.Slab += active * size
		if name == "TCP" || name == "TCPv6" {
			k.Sockets += active
		}
	}
	return k, nil
}

// ofConnection tells whether a slab cache holds what a TCP connection and its file are made of. Dentries are left out: most are of other
// files, and come and go with everything that runs.
func ofConnection(cache string) bool {
	switch cache {
	case "TCP", "TCPv6", "sock_inode_cache", "filp", "lsm_file_cache", "lsm_inode_cache", "eventpoll_epi", "eventpoll_pwq",
		"request_sock_TCP", "request_sock_TCPv6":
		return true
	}
	return false
}

// overflows is how many connections found the accept queue full, in the process's network namespace.
func (p process) overflows() (int64, error) {
	text, err := os.ReadFile(p.path("net/netstat"))
	if err != nil {
		return 0, fmt.Errorf("read the network's counters: %w", err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, "TcpExt:")
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if names == nil {
			names = fields
			continue
		}
		for i, name := range names {
			if name == "ListenOverflows" && i < len(fields) {
				return strconv.ParseInt(fields[i], 10, 64)
			}
		}
	}
	return 0, errors.New("read the network's counters: there is no ListenOverflows")
}
