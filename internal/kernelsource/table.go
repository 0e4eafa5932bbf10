package kernelsource

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/internal/kernel/sockdiag"
)

// table counts by polling the socket table: everything in it is a lower bound. Safe for concurrent use.
type table struct {
	diag *sockdiag.Conn

	mu    sync.Mutex
	ports map[uint16]*polled
}

// polled is what the polls of a port saw so far.
type polled struct {
	now                    map[uint64]sockdiag.Socket // by cookie
	opened, closed, seeded uint64
	bytes                  traffic // of those that are gone, as they were last seen
}

func newTable(diag *sockdiag.Conn) *table {
	return &table{diag: diag, ports: map[uint16]*polled{}}
}

func (t *table) watch(ports []uint16) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, port := range ports {
		p := &polled{}
		if err := t.pollPort(port, p); err != nil {
			return err
		}
		p.seeded, p.opened = p.opened, 0
		t.ports[port] = p
	}
	return nil
}

func (t *table) poll() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pollLocked()
}

func (t *table) pollLocked() error {
	for port, p := range t.ports {
		if err := t.pollPort(port, p); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) pollPort(port uint16, p *polled) error {
	sockets, err := t.diag.Dump(port, sockdiag.Connected())
	if err != nil {
		return err
	}
	now := make(map[uint64]sockdiag.Socket, len(sockets))
	for i := range sockets {
		s := sockets[i]
		now[s.Cookie] = s
		if _, known := p.now[s.Cookie]; !known {
			p.opened++
		}
	}
	for cookie := range p.now {
		if _, still := now[cookie]; !still {
			gone := p.now[cookie]
			p.closed++
			p.bytes.in += gone.BytesIn
			p.bytes.out += gone.BytesOut
		}
	}
	p.now = now
	return nil
}

func (t *table) report(ports []uint16, why string) (broker.KernelReport, error) {
	r := broker.KernelReport{
		Mode: broker.KernelModeSockDiag, Exactness: broker.KernelLowerBound,
		Why: "the socket table is polled, so short connections are missed, and TLS and served are not known: " + why,
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.pollLocked(); err != nil {
		return r, err
	}
	listeners, err := listenersOf(t.diag)
	if err != nil {
		return r, err
	}
	for _, number := range slices.Sorted(slices.Values(ports)) {
		p := t.ports[number]
		k := broker.KernelPort{
			Port: number, Established: int64(len(p.now)), Unknown: int64(len(p.now)),
			Opened: p.opened, Closed: p.closed, Seeded: p.seeded, BytesIn: p.bytes.in, BytesOut: p.bytes.out,
			Sources: []broker.KernelSourceCount{},
		}
		sources := map[netip.Addr]int64{}
		for cookie := range p.now {
			s := p.now[cookie]
			k.BytesIn += s.BytesIn
			k.BytesOut += s.BytesOut
			sources[s.Remote.Addr()]++
			if sockdiag.Ending().Has(s.State) {
				k.Closing++
			}
		}
		for addr, n := range sources {
			k.Sources = append(k.Sources, broker.KernelSourceCount{Addr: addr, Count: n})
		}
		sortSources(k.Sources)
		listeners.fill(&k)
		add(&r.Group, &k)
		r.Ports = append(r.Ports, k)
	}
	return r, nil
}
