package kernelsource

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/bpf/sockacct"
	"github.com/brokerlab/brokerlab/internal/kernel"
	"github.com/brokerlab/brokerlab/internal/kernel/sockdiag"
)

// upkeepEvery is how often ports that nobody watches are forgotten and, without BPF, the socket table is polled.
const upkeepEvery = time.Second

// After so many of them addresses without connections are swept, and counts are compared with a list of the connections.
const (
	sweepEvery = 10
	auditEvery = 30
)

// hub is the counting of one process, shared by the views on it. Safe for concurrent use.
type hub struct {
	counter *sockacct.Counter // nil: the socket table is polled
	why     string            // there is no counter
	log     *slog.Logger

	stop chan struct{}
	done sync.WaitGroup

	mu     sync.Mutex
	ports  map[portID]*portUse
	groups uint32 // the last one given out
	views  map[*view]struct{}
}

type portID struct {
	netns uint64
	port  uint16
}

// portUse says who watches a port. It outlives its last watcher until the port has no connections any more.
type portUse struct {
	group    uint32
	watchers int
}

func newHub(o Options) (*hub, error) {
	if o.Without == nil {
		var err error
		if o.Without, err = kernel.FromEnv(); err != nil {
			return nil, err
		}
	}
	h := &hub{
		log: o.log(), stop: make(chan struct{}),
		ports: map[portID]*portUse{}, views: map[*view]struct{}{},
	}
	if err := o.Without.Check(kernel.Accounting); err != nil {
		h.why = err.Error()
	} else {
		h.counter, err = sockacct.Load(sockacct.Options{
			NoSeeding: o.Without.Has(kernel.Seeding), NoListing: o.Without.Has(kernel.Listing),
		})
		if err != nil {
			h.counter, h.why = nil, kernel.Explain(kernel.Accounting, err).Error()
		}
	}
	if h.counter == nil {
		if err := o.Without.Check(kernel.SockDiag); err != nil {
			return nil, fmt.Errorf("nothing left to count with: %w; %s", err, h.why)
		}
	}
	h.done.Go(h.upkeep)
	return h, nil
}

func (h *hub) close() error {
	close(h.stop)
	h.done.Wait()
	if h.counter == nil {
		return nil
	}
	return h.counter.Close()
}

func (h *hub) upkeep() {
	tick := time.NewTicker(upkeepEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-h.stop:
			return
		case <-tick.C:
			h.poll()
			h.forget()
			if n%sweepEvery == 0 {
				h.sweep()
			}
			if n%auditEvery == 0 {
				h.audit()
			}
		}
	}
}

// audit looks for counts that are wrong for good: none was ever seen, and the marks would prove nothing after one.
func (h *hub) audit() {
	if h.counter == nil || h.counter.Listing() != nil {
		return
	}
	for _, v := range h.all() {
		drift, err := h.counter.Drift(v.netns, v.within)
		if err != nil {
			h.log.Debug("compare counts with sockets", slog.Any("error", err)) // the namespace may just have gone
			continue
		}
		v.setDrift(drift)
	}
}

func (h *hub) all() []*view {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.views))
}

// sweep makes room for new client addresses.
func (h *hub) sweep() {
	if h.counter == nil {
		return
	}
	if _, err := h.counter.Sweep(); err != nil {
		h.log.Warn("sweep client addresses", slog.Any("error", err))
	}
}

// poll lets the views without BPF look.
func (h *hub) poll() {
	if h.counter != nil {
		return
	}
	for _, v := range h.all() {
		if err := v.table.poll(); err != nil && !errors.Is(err, unix.EBADF) { // closed meanwhile
			h.log.Warn("poll the socket table", slog.Any("error", err))
		}
	}
}

// forget stops counting ports without watchers and without connections.
func (h *hub) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, use := range h.ports {
		if use.watchers > 0 {
			continue
		}
		err := h.counter.Forget(id.netns, id.port)
		if err == nil {
			delete(h.ports, id)
		} else if !errors.Is(err, sockacct.ErrBusy) {
			h.log.Warn("forget a port", slog.Any("error", err))
		}
	}
}

// watch counts ports of a namespace in a group; 0 asks for the group of one that is known, or a new one. A port that is known
// keeps its counts and group; its marks start anew unless somebody else watches it, so that a broker that was started again
// does not inherit those of the one before.
func (h *hub) watch(netns uint64, ports []uint16, group uint32) (groups []uint32, _ error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, port := range ports {
		if use := h.ports[portID{netns, port}]; use != nil && group == 0 {
			group = use.group
		}
	}
	if group == 0 {
		h.groups++
		group = h.groups
	}
	for i, port := range ports {
		used, err := h.watchPort(portID{netns, port}, group)
		if err != nil {
			h.unwatchLocked(netns, ports[:i])
			return nil, err
		}
		groups = append(groups, used)
	}
	return groups, nil
}

func (h *hub) watchPort(id portID, group uint32) (used uint32, _ error) {
	use := h.ports[id]
	if use == nil {
		if err := h.counter.Watch(id.netns, id.port, group); err != nil {
			return 0, err
		}
		use = &portUse{group: group}
		h.ports[id] = use
	} else if use.watchers == 0 {
		if err := h.counter.ResetMarks(id.netns, id.port); err != nil {
			return 0, err
		}
	}
	use.watchers++
	return use.group, nil
}

func (h *hub) unwatch(netns uint64, ports []uint16) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unwatchLocked(netns, ports)
}

func (h *hub) unwatchLocked(netns uint64, ports []uint16) {
	for _, port := range ports {
		if use := h.ports[portID{netns, port}]; use != nil {
			use.watchers--
		}
	}
}

// view makes a view on the network namespace where within runs its argument. within must stay valid until the view is closed.
func (h *hub) view(within func(func() error) error) (*view, error) {
	v := &view{hub: h, within: within, bytes: map[uint16]traffic{}}
	err := within(func() (err error) {
		if v.netns, err = sockacct.NetnsCookie(); err != nil && h.counter != nil {
			return err
		}
		v.diag, err = sockdiag.Open()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look into the network namespace: %w", err)
	}
	if h.counter == nil {
		v.table = newTable(v.diag)
	}
	h.mu.Lock()
	h.views[v] = struct{}{}
	h.mu.Unlock()
	return v, nil
}

func (h *hub) drop(v *view) {
	h.mu.Lock()
	delete(h.views, v)
	h.mu.Unlock()
}
