package sockacct

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

const batch = 1024 // keys read in one system call

// Ports returns the counts of all watched ports, in no order.
func (c *Counter) Ports() ([]Port, error) {
	var ports []Port
	err := walk(c.maps.Ports, func(key sockacctPortKey, count sockacctPortCount) {
		ports = append(ports, port(key, count))
	})
	if err != nil {
		return nil, fmt.Errorf("read ports: %w", err)
	}
	return ports, nil
}

// Port returns the counts of one port, or [ErrNotWatched].
func (c *Counter) Port(netns uint64, number uint16) (Port, error) {
	key := sockacctPortKey{Netns: netns, Port: number}
	var count sockacctPortCount
	err := c.maps.Ports.Lookup(key, &count)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		err = ErrNotWatched
	}
	if err != nil {
		return Port{}, fmt.Errorf("read port %d: %w", number, err)
	}
	return port(key, count), nil
}

// Group returns the gauge of the ports of a group.
func (c *Counter) Group(id uint32) (Gauge, error) {
	var g sockacctGauge
	if err := c.maps.Groups.Lookup(id, &g); err != nil {
		return Gauge{}, fmt.Errorf("read group %d: %w", id, err)
	}
	return gauge(g), nil
}

func port(key sockacctPortKey, c sockacctPortCount) Port {
	return Port{
		Netns: key.Netns, Port: key.Port, Group: c.Group,
		Established: c.Established,
		TLS:         c.Tls, Plaintext: c.Plaintext, Undecided: c.Undecided, Unknown: c.Unknown,
		Closing: c.Closing,
		Opened:  c.Opened, Closed: c.Closed, Seeded: c.Seeded,
		ClosedBytesIn: c.BytesIn, ClosedBytesOut: c.BytesOut,
		Gauge: gauge(c.Gauge),
	}
}

func gauge(g sockacctGauge) Gauge {
	return Gauge{
		Served: g.Served, ServedTLS: g.ServedTls, ServedPlaintext: g.ServedPlaintext,
		ServedMax: g.ServedMax, ServedTLSMax: g.ServedTlsMax, ServedPlaintextMax: g.ServedPlaintextMax,
		ServedTotal: g.ServedTotal,
	}
}

// Sources returns the client addresses that have connections now, in no order.
func (c *Counter) Sources() ([]Source, error) {
	type client struct {
		netns uint64
		port  uint16
		addr  [16]byte
	}
	counts := map[client]int64{}
	err := walk(c.maps.Sources, func(key sockacctSourceKey, n int64) {
		if n > 0 { // an entry at zero waits for Sweep, a negative one is being deleted
			counts[client{key.Netns, key.Port, key.Addr}] += n
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read sources: %w", err)
	}
	sources := make([]Source, 0, len(counts))
	for k, n := range counts {
		sources = append(sources, Source{Netns: k.netns, Port: k.port, Addr: netip.AddrFrom16(k.addr).Unmap(), Count: n})
	}
	return sources, nil
}

// Sweep deletes the addresses that have no connections any more, so that new ones find room, and returns how many they were.
// An address that connects meanwhile is not lost.
func (c *Counter) Sweep() (int, error) {
	c.watching.Lock()
	defer c.watching.Unlock()
	var empty []sockacctSourceKey
	err := walk(c.maps.Sources, func(key sockacctSourceKey, n int64) {
		if n == 0 {
			empty = append(empty, key)
		}
	})
	if err != nil {
		return 0, fmt.Errorf("sweep sources: %w", err)
	}
	deleted := 0
	for _, key := range empty {
		ret, err := c.progs.SweepSource.Run(&ebpf.RunOptions{Context: key})
		if err != nil {
			return deleted, fmt.Errorf("sweep sources: %w", err)
		}
		deleted += int(ret)
	}
	return deleted, nil
}

// Lost returns how often something could not be counted, by cause, without those that never happened. Where it is not empty
// the counts are lower bounds.
func (c *Counter) Lost() (map[string]uint64, error) {
	lost := map[string]uint64{}
	for kind, name := range map[sockacctLoss]string{
		sockacctLossLOST_CONN:    "connections",
		sockacctLossLOST_SOURCE:  "sources",
		sockacctLossLOST_VERDICT: "verdicts",
		sockacctLossLOST_MARK:    "marks",
	} {
		var perCPU []uint64
		if err := c.maps.Lost.Lookup(kind, &perCPU); err != nil {
			return nil, fmt.Errorf("read lost %s: %w", name, err)
		}
		for _, n := range perCPU {
			if n > 0 {
				lost[name] += n
			}
		}
	}
	return lost, nil
}

// Sockets lists the connections of watched ports in the network namespace where within runs its argument, in no order.
func (c *Counter) Sockets(within func(func() error) error) ([]Socket, error) {
	if c.listing != nil {
		return nil, fmt.Errorf("list sockets: %w", c.listing)
	}
	it, err := link.AttachIter(link.IterOptions{Program: c.progs.List})
	if err != nil {
		return nil, fmt.Errorf("list sockets: attach iterator: %w", err)
	}
	defer it.Close() //nolint:errcheck // detaches a read-only iterator
	boot, err := bootTime()
	if err != nil {
		return nil, fmt.Errorf("list sockets: %w", err)
	}
	var r io.ReadCloser
	// An iterator belongs to the namespace of the thread that opens it, whoever reads it afterwards.
	err = within(func() (err error) {
		r, err = it.Open()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list sockets: open iterator: %w", err)
	}
	defer r.Close() //nolint:errcheck // only read
	sockets, err := readSockets(r, boot)
	if err != nil {
		return nil, fmt.Errorf("list sockets: %w", err)
	}
	return sockets, nil
}

func readSockets(r io.Reader, boot time.Time) ([]Socket, error) {
	b := bufio.NewReaderSize(r, 1<<16)
	raw := make([]byte, binary.Size(sockacctConnRow{}))
	var sockets []Socket
	for {
		_, err := io.ReadFull(b, raw)
		if errors.Is(err, io.EOF) {
			return sockets, nil
		}
		if err != nil {
			return nil, err
		}
		var row sockacctConnRow
		if _, err := binary.Decode(raw, binary.NativeEndian, &row); err != nil {
			return nil, err
		}
		sockets = append(sockets, socket(&row, boot))
	}
}

// Bits of a phase; see sockacct.h.
const (
	phaseVerdict = 0x0ff
	phaseCounted = 0x100
	phaseServed  = 0x200
)

func socket(r *sockacctConnRow, boot time.Time) Socket {
	c := &r.Conn
	verdict := Verdict(c.Phase & phaseVerdict)
	if c.Phase == 0 {
		verdict = Unknown
	}
	return Socket{
		Netns: c.Netns, Cookie: c.Cookie,
		Local:  netip.AddrPortFrom(netip.AddrFrom16(c.Local).Unmap(), c.LocalPort),
		Remote: netip.AddrPortFrom(netip.AddrFrom16(c.Remote).Unmap(), c.RemotePort),
		Since:  boot.Add(time.Duration(c.SinceNs)), Seeded: c.Seeded != 0,
		Counted: c.Phase&phaseCounted != 0, Verdict: verdict, Served: c.Phase&phaseServed != 0,
		State: r.State, BytesIn: r.BytesIn, BytesOut: r.BytesOut, RTT: time.Duration(r.RttUs) * time.Microsecond,
	}
}

// bootTime is when CLOCK_MONOTONIC was zero.
func bootTime() (time.Time, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return time.Time{}, fmt.Errorf("read the monotonic clock: %w", err)
	}
	return time.Now().Add(-time.Duration(ts.Nano())), nil
}

// Drift is a port whose count and whose list of connections disagree.
type Drift struct {
	Netns       uint64
	Port        uint16
	Established int64
	Listed      int64
}

// driftReads is how often a difference must be seen, each time the same beside a count that stood still, before it is one.
const driftReads = 3

// Drift compares the counts of the ports of one network namespace with a list of their connections. A difference would mean
// that an event was lost without trace, and that the port's marks since then prove nothing. A port too busy to be compared
// is left out.
func (c *Counter) Drift(netns uint64, within func(func() error) error) ([]Drift, error) {
	var lasting map[Drift]bool
	for range driftReads {
		now, err := c.differences(netns, within)
		if err != nil {
			return nil, fmt.Errorf("look for drift: %w", err)
		}
		if lasting == nil {
			lasting = now
		}
		maps.DeleteFunc(lasting, func(d Drift, _ bool) bool { return !now[d] })
	}
	return slices.Collect(maps.Keys(lasting)), nil
}

func (c *Counter) differences(netns uint64, within func(func() error) error) (map[Drift]bool, error) {
	ports, err := c.Ports()
	if err != nil {
		return nil, err
	}
	sockets, err := c.Sockets(within)
	if err != nil {
		return nil, err
	}
	listed := map[uint16]int64{}
	for i := range sockets {
		if sockets[i].Counted {
			listed[sockets[i].Local.Port()]++
		}
	}
	different := map[Drift]bool{}
	for i := range ports {
		before := &ports[i]
		if before.Netns != netns {
			continue
		}
		after, err := c.Port(netns, before.Port)
		if errors.Is(err, ErrNotWatched) {
			continue
		}
		if err != nil {
			return nil, err
		}
		quiet := before.Opened == after.Opened && before.Closed == after.Closed && before.Seeded == after.Seeded
		if n := listed[after.Port]; quiet && n != after.Established {
			different[Drift{netns, after.Port, after.Established, n}] = true
		}
	}
	return different, nil
}

// walk reads a hash map in batches: some eight times faster than key by key. It is not a snapshot.
func walk[K, V any](m *ebpf.Map, each func(K, V)) error {
	size := batch
	keys, values := make([]K, size), make([]V, size)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		for i := range n {
			each(keys[i], values[i])
		}
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist):
			return nil
		case errors.Is(err, unix.ENOSPC): // one bucket holds more than a batch
			size *= 2
			keys, values = make([]K, size), make([]V, size)
		case err != nil:
			return err
		}
	}
}
