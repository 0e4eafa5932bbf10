package quota

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Connections counts a broker's connections and holds them to its limits. Safe
// for concurrent use: one lock guards everything, and is held for a bounded
// number of steps (the listeners' waiters, the samples of three rates).
type Connections struct {
	window   window
	start    time.Time // of the milliseconds of rates
	onExcess func()
	excess   atomic.Int64 // connections that somebody should claim for eviction

	mu        sync.Mutex // guards what follows
	config    Config
	listeners map[string]*listener
	total     int // with those of listeners that are gone
	ssl       int // of them, admitted by a TLS listener
	claims    int // of them, about to be evicted
	sslClaims int // of those, TLS
	created   rate
	waiting   []*waiter // in the order in which they came
	ips       ipTable
}

// New limits by c and measures rates over w.
func New(w Window, c Config) *Connections {
	w = w.resolve()
	q := &Connections{
		window:    window{samples: w.Samples, size: w.Size.Milliseconds()},
		start:     time.Now(),
		config:    c.clone(),
		listeners: map[string]*listener{},
	}
	q.ips.init()
	return q
}

// OnExcess sets what is called when connections may have to be evicted: each
// loop is to look at [Connections.Exceeded] soon. It is called by whoever
// caused the excess, with no lock held, by several at once perhaps, and must not
// block. To be set once, before the first use.
func (q *Connections) OnExcess(f func()) { q.onExcess = f }

// Configure replaces all limits but the rates of addresses. Who waits for a
// slot is tested again; a delay that a rate imposed stays what it was.
func (q *Connections) Configure(c Config) {
	c = c.clone()
	q.lock()
	defer q.unlock()
	q.config = c
	for name, l := range q.listeners {
		l.limits = c.listener(name)
	}
	q.grant()
}

// SetIPRates replaces the rates of addresses, the client quota of KIP-612:
// connections a second, overrides before the default. [Unlimited] is none; zero
// holds every connection for one window.
func (q *Connections) SetIPRates(byDefault int, overrides map[netip.Addr]int) {
	overrides = canonicalKeys(overrides)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ips.rate, q.ips.rates = byDefault, overrides
}

// millis is the clock of rates.
func (q *Connections) millis(now time.Time) int64 { return now.Sub(q.start).Milliseconds() }

// lock begins what may end a wait.
func (q *Connections) lock() {
	q.mu.Lock()
	q.note()
}

// unlock ends what may have changed counts or limits.
func (q *Connections) unlock() {
	before := q.excess.Load()
	after := q.evictable()
	if after != before {
		q.excess.Store(after)
	}
	q.mu.Unlock()
	if after > before && q.onExcess != nil {
		q.onExcess()
	}
}
