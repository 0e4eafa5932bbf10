package quota

import (
	"cmp"
	"net/netip"
	"slices"
	"time"
)

// State is a consistent picture of everything. Its maps are shared: they are
// never changed, and not to be changed.
type State struct {
	Connections   int     // all of the broker, as Kafka counts them
	SSL           int     // of them, admitted by TLS listeners
	CreationRate  float64 // a second, without a protected listener
	Config        Config
	IPDefaultRate int // Unlimited: none
	IPRates       map[netip.Addr]int
	Listeners     []ListenerState // by name
	IPs           int             // addresses that have connections
}

// ListenerState is one listener.
type ListenerState struct {
	Name        string
	TLS         bool
	Protected   bool // from the broker's own limits
	Connections int
	// CreationRate is connections a second.
	CreationRate float64
	// Blocked is for how long the acceptor was blocked.
	Blocked Meter
	// ThrottleTime and IPThrottleTime are the averages of the delays that the
	// rates of broker and listener, and of addresses, asked for lately, in
	// milliseconds: NaN when there were none.
	ThrottleTime, IPThrottleTime float64
	// Waiting is the socket that the acceptor holds; nil when it holds none.
	Waiting *Waiting
}

// Waiting is a connection that waits to be admitted.
type Waiting struct {
	Addr  netip.Addr
	Since time.Time
	Limit Limit         // that holds it now
	Delay time.Duration // that a rate asked for, from Since on
}

// State is what is counted and measured now.
func (q *Connections) State() State {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	perSecond, _ := q.created.measure(q.window, q.millis(now))
	s := State{
		Connections: q.total, SSL: q.ssl, CreationRate: perSecond, Config: q.config,
		IPDefaultRate: q.ips.rate, IPRates: q.ips.rates, IPs: q.ips.connected,
		Listeners: make([]ListenerState, 0, len(q.listeners)),
	}
	for _, l := range q.listeners {
		s.Listeners = append(s.Listeners, q.listenerState(l, now))
	}
	slices.SortFunc(s.Listeners, func(a, b ListenerState) int { return cmp.Compare(a.Name, b.Name) })
	return s
}

func (q *Connections) listenerState(l *listener, now time.Time) ListenerState {
	ms := q.millis(now)
	perSecond, _ := l.created.measure(q.window, ms)
	s := ListenerState{
		Name: l.name, TLS: l.tls, Protected: q.protected(l), Connections: l.count,
		CreationRate: perSecond, Blocked: l.blocked.read(now),
		ThrottleTime: l.throttle.measure(ms), IPThrottleTime: l.throttleByIP.measure(ms),
	}
	i := slices.IndexFunc(q.waiting, func(w *waiter) bool { return w.listener == l })
	if i >= 0 {
		w := q.waiting[i]
		s.Waiting = &Waiting{Addr: w.addr, Since: w.since, Limit: w.rate, Delay: w.delay}
		if now.Sub(w.since) >= w.delay {
			s.Waiting.Limit = q.full(l)
		}
	}
	return s
}
