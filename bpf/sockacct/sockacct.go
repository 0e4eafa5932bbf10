// Package sockacct counts TCP connections in the kernel, at the server's end: how many are established on a port, from which
// addresses, how many of them speak TLS whatever the port claims, and how many a server has taken up ([Gauge]).
//
// A [Counter] is loaded once and attached at the root of the cgroup2 hierarchy, from where its programs see every network
// namespace. Nothing is counted until a port of a namespace is watched; other sockets of the machine cost a look-up and no
// memory. What is watched before its server listens is counted from its first connection on; connections that were there
// before are counted by [Counter.Seed]. Everything ends with [Counter.Close], or with the process: nothing is pinned.
//
// It never changes a packet, a socket's behaviour or a namespace, and it never judges: what a count should be is known
// elsewhere. A count that may be too low says so in [Counter.Lost].
package sockacct

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"
)

// Sizes of the maps where [Options] leave them open.
const (
	DefaultMaxPorts   = 4096
	DefaultMaxSources = 1 << 18
	DefaultMaxEarly   = 1 << 14
)

var (
	// ErrNotWatched says that the port is not watched in that network namespace.
	ErrNotWatched = errors.New("port is not watched")
	// ErrBusy says that connections of the port are still counted.
	ErrBusy = errors.New("port has connections")
	// ErrDisabled says that the feature was switched off in [Options].
	ErrDisabled = errors.New("switched off")
)

// Options say what to load. The zero value loads everything.
type Options struct {
	// Cgroup is the cgroup2 directory to attach to: sockets made by processes below it are seen. "" is the root of the
	// hierarchy, as [Cgroup2] finds it.
	Cgroup string

	// NoSeeding leaves out the program that counts connections which were there before; it needs Linux 6.12.
	NoSeeding bool
	// NoListing leaves out the program that lists single connections.
	NoListing bool

	// The most ports, client addresses and connections within their handshake that there is room for. 0 is the default.
	MaxPorts, MaxSources, MaxEarly int
}

// Counter is the loaded and attached programs with their maps. Safe for concurrent use.
type Counter struct {
	maps  sockacctMaps
	progs sockacctPrograms
	links []link.Link

	seeding, listing error // nil: works; else why it does not

	watching sync.Mutex // user space inserts and deletes keys of ports, groups and sources in turn
}

// Load loads the programs and attaches them. The three that count are needed; where seeding or listing cannot be loaded the
// others go on without, and [Counter.Seeding] and [Counter.Listing] say why.
func Load(o Options) (*Counter, error) {
	if o.Cgroup == "" {
		dir, err := Cgroup2()
		if err != nil {
			return nil, err
		}
		o.Cgroup = dir
	}
	// Kernels before 5.11 count BPF memory there; later ones may refuse the call, and need it not.
	_ = rlimit.RemoveMemlock()

	spec, err := specWith(o)
	if err != nil {
		return nil, err
	}
	c := &Counter{}
	if err := c.load(spec, o); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	// Last what inserts connections: by then everything that changes them is in place.
	for _, p := range []struct {
		prog   *ebpf.Program
		attach ebpf.AttachType
		name   string
	}{
		{c.progs.OnEgress, ebpf.AttachCGroupInetEgress, "egress"},
		{c.progs.OnIngress, ebpf.AttachCGroupInetIngress, "ingress"},
		{c.progs.OnState, ebpf.AttachCGroupSockOps, "socket states"},
	} {
		l, err := link.AttachCgroup(link.CgroupOptions{Path: o.Cgroup, Attach: p.attach, Program: p.prog})
		if errors.Is(err, unix.E2BIG) {
			err = fmt.Errorf("as many programs are attached there as the kernel allows: %w", err)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("attach the program for %s to cgroup %s: %w", p.name, o.Cgroup, err), c.Close())
		}
		c.links = append(c.links, l)
	}
	return c, nil
}

func specWith(o Options) (*ebpf.CollectionSpec, error) {
	spec, err := loadSockacct()
	if err != nil {
		return nil, err
	}
	for name, size := range map[string]struct{ asked, otherwise int }{
		sockacctMapPorts:   {o.MaxPorts, DefaultMaxPorts},
		sockacctMapGroups:  {o.MaxPorts, DefaultMaxPorts},
		sockacctMapSources: {o.MaxSources, DefaultMaxSources},
		sockacctMapEarly:   {o.MaxEarly, DefaultMaxEarly},
	} {
		entries := size.asked
		if entries <= 0 {
			entries = size.otherwise
		}
		spec.Maps[name].MaxEntries = uint32(entries)
	}
	return spec, nil
}

// load fills c in tiers, because one program that is refused fails its whole collection.
func (c *Counter) load(spec *ebpf.CollectionSpec, o Options) error {
	if err := spec.LoadAndAssign(&c.maps, nil); err != nil {
		return fmt.Errorf("create BPF maps: %w", err)
	}
	replace := ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{
		sockacctMapConns: c.maps.Conns, sockacctMapEarly: c.maps.Early, sockacctMapGroups: c.maps.Groups,
		sockacctMapLost: c.maps.Lost, sockacctMapPorts: c.maps.Ports, sockacctMapSources: c.maps.Sources,
	}}
	// All at once where all are wanted and work, because each collection reads the kernel's types anew.
	if !o.NoSeeding && !o.NoListing && spec.LoadAndAssign(&c.progs, &replace) == nil {
		return nil
	}
	var hot struct {
		OnEgress    *ebpf.Program `ebpf:"on_egress"`
		OnIngress   *ebpf.Program `ebpf:"on_ingress"`
		OnState     *ebpf.Program `ebpf:"on_state"`
		ResetMarks  *ebpf.Program `ebpf:"reset_marks"`
		SweepSource *ebpf.Program `ebpf:"sweep_source"`
	}
	if err := spec.LoadAndAssign(&hot, &replace); err != nil {
		return fmt.Errorf("load BPF programs: %w", err)
	}
	c.progs = sockacctPrograms{
		OnEgress: hot.OnEgress, OnIngress: hot.OnIngress, OnState: hot.OnState,
		ResetMarks: hot.ResetMarks, SweepSource: hot.SweepSource,
	}
	c.seeding, c.listing = ErrDisabled, ErrDisabled
	if !o.NoSeeding {
		var p struct {
			Seed *ebpf.Program `ebpf:"seed"`
		}
		c.seeding = spec.LoadAndAssign(&p, &replace)
		c.progs.Seed = p.Seed
	}
	if !o.NoListing {
		var p struct {
			List *ebpf.Program `ebpf:"list"`
		}
		c.listing = spec.LoadAndAssign(&p, &replace)
		c.progs.List = p.List
	}
	return nil
}

// Close detaches and unloads everything. It may be called twice.
func (c *Counter) Close() error {
	var errs []error
	for _, l := range c.links {
		errs = append(errs, l.Close())
	}
	c.links = nil
	// A nil program or map closes without complaint.
	for _, p := range []*ebpf.Program{
		c.progs.List, c.progs.OnEgress, c.progs.OnIngress, c.progs.OnState,
		c.progs.ResetMarks, c.progs.Seed, c.progs.SweepSource,
	} {
		errs = append(errs, p.Close())
	}
	for _, m := range []*ebpf.Map{c.maps.Conns, c.maps.Early, c.maps.Groups, c.maps.Lost, c.maps.Ports, c.maps.Sources} {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// Seeding returns nil where connections can be counted that were there before, else why not.
func (c *Counter) Seeding() error { return c.seeding }

// Listing returns nil where single connections can be listed, else why not.
func (c *Counter) Listing() error { return c.listing }

// Watch begins to count port in the network namespace with that cookie (SO_NETNS_COOKIE). Ports with the same group, unless
// 0, share a [Gauge] as well. A port that is watched already keeps its counts and its group.
func (c *Counter) Watch(netns uint64, port uint16, group uint32) error {
	c.watching.Lock()
	defer c.watching.Unlock()
	if group != 0 {
		if err := insert(c.maps.Groups, group, sockacctGauge{}); err != nil {
			return fmt.Errorf("make group %d: %w", group, err)
		}
	}
	key := sockacctPortKey{Netns: netns, Port: port}
	if err := insert(c.maps.Ports, key, sockacctPortCount{Group: group}); err != nil {
		return fmt.Errorf("watch port %d: %w", port, err)
	}
	return nil
}

func insert[K, V any](m *ebpf.Map, key K, value V) error {
	err := m.Update(key, value, ebpf.UpdateNoExist)
	if errors.Is(err, ebpf.ErrKeyExist) {
		return nil
	}
	return err
}

// Forget ends the counting of a port that has no connections any more; else it returns [ErrBusy], because those that remain
// would be taken away from a count to which they were never added if the port were watched again.
// The server must not listen any longer.
func (c *Counter) Forget(netns uint64, port uint16) error {
	c.watching.Lock()
	defer c.watching.Unlock()
	p, err := c.Port(netns, port)
	switch {
	case errors.Is(err, ErrNotWatched):
		return nil
	case err != nil:
		return err
	case p.Established != 0:
		return fmt.Errorf("forget port %d: %w", port, ErrBusy)
	}
	if err := c.maps.Ports.Delete(sockacctPortKey{Netns: netns, Port: port}); err != nil {
		return fmt.Errorf("forget port %d: %w", port, err)
	}
	return nil
}

// Seed counts the connections of watched ports that were there before they were watched, in the network namespace where
// within runs its argument. It may be repeated: a connection is counted once, by whoever comes first.
func (c *Counter) Seed(within func(func() error) error) error {
	if c.seeding != nil {
		return fmt.Errorf("seed: %w", c.seeding)
	}
	it, err := link.AttachIter(link.IterOptions{Program: c.progs.Seed})
	if err != nil {
		return fmt.Errorf("seed: attach iterator: %w", err)
	}
	defer it.Close() //nolint:errcheck // detaches a read-only iterator
	// An iterator belongs to the namespace of the thread that opens it, whoever reads it afterwards.
	var r io.ReadCloser
	err = within(func() (err error) {
		r, err = it.Open()
		return err
	})
	if err != nil {
		return fmt.Errorf("seed: open iterator: %w", err)
	}
	defer r.Close() //nolint:errcheck // only read
	// Reading is what walks the sockets.
	if _, err := io.Copy(io.Discard, r); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	return nil
}

// ResetMarks starts the high-water marks of a port and of its group anew, from what is served now.
func (c *Counter) ResetMarks(netns uint64, port uint16) error {
	ret, err := c.progs.ResetMarks.Run(&ebpf.RunOptions{Context: sockacctPortKey{Netns: netns, Port: port}})
	if err != nil {
		return fmt.Errorf("reset marks of port %d: %w", port, err)
	}
	if ret != 0 {
		return fmt.Errorf("reset marks of port %d: %w", port, ErrNotWatched)
	}
	return nil
}

// NetnsCookie returns the cookie of the network namespace of the calling thread: the kernel never uses one twice.
func NetnsCookie() (uint64, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("netns cookie: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // an unused socket: nothing can be lost
	cookie, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return 0, fmt.Errorf("netns cookie: %w", err)
	}
	return cookie, nil
}

// Verdict is what the first payload bytes of a client say.
type Verdict uint8

// Verdicts.
const (
	Undecided = Verdict(sockacctVerdictUNDECIDED) // too few bytes yet
	TLS       = Verdict(sockacctVerdictTLS)
	Plaintext = Verdict(sockacctVerdictPLAINTEXT)
	Unknown   = Verdict(sockacctVerdictUNKNOWN) // the first bytes went by before the programs were there
)

func (v Verdict) String() string {
	switch v {
	case Undecided:
		return "undecided"
	case TLS:
		return "tls"
	case Plaintext:
		return "plaintext"
	case Unknown:
		return "unknown"
	}
	return "unknown"
}

// Gauge is how many server sockets have sent payload and have not begun to close. A server that takes a slot before its first
// byte and gives it back after close(2) never has more than its limit here, whatever its clients do: a maximum above the limit
// proves a fault. (One within it does not prove the absence of any: the mark errs low only.)
type Gauge struct {
	Served, ServedTLS, ServedPlaintext          int64
	ServedMax, ServedTLSMax, ServedPlaintextMax int64 // the most at one instant since the marks were reset
	ServedTotal                                 uint64
}

// Port is what was counted of a watched port. A read is not atomic: beside changes, its parts may differ by those in flight.
type Port struct {
	Netns uint64
	Port  uint16
	Group uint32

	// Established is what the kernel calls connected, in the accept queue too, until CLOSE:
	// the sum of the four verdicts.
	Established                        int64
	TLS, Plaintext, Undecided, Unknown int64

	// Closing is how many of Established the program has closed or shut down, while TCP has not ended yet.
	Closing int64

	Opened, Closed, Seeded uint64 // Established = Opened + Seeded - Closed
	Gauge                  Gauge

	// ClosedBytesIn and ClosedBytesOut are those of closed connections, as ss(8) shows them: the end of a stream counts as
	// one. Bytes of open connections are in their sockets: see [Counter.Sockets].
	ClosedBytesIn, ClosedBytesOut uint64
}

// Source is how many connections of a port a client address has now.
type Source struct {
	Netns uint64
	Port  uint16
	Addr  netip.Addr // IPv4 as such, on a dual-stack socket too
	Count int64
}

// Socket is one counted connection.
type Socket struct {
	Netns         uint64
	Cookie        uint64 // SO_COOKIE
	Local, Remote netip.AddrPort
	Since         time.Time // of a seeded one, when it was seeded; of one not counted, when it was listed
	Counted       bool      // false: it was there before its port was watched, and was not seeded
	Seeded        bool
	Verdict       Verdict
	Served        bool // it sent payload, and has not begun to close
	State         uint8
	BytesIn       uint64
	BytesOut      uint64 // acknowledged by the client
	RTT           time.Duration
}
