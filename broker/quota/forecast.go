package quota

import (
	"net/netip"
	"slices"
	"time"
)

// Forecast is what would become of a connection that came now, if nothing else
// happened meanwhile. The zero value: it is admitted at once. What is in front
// of it is not counted in: who waits already ([ListenerState.Waiting]), and who
// is not accepted yet.
type Forecast struct {
	Delay   time.Duration // that a rate of broker or listener would ask for
	Rate    Limit         // whose delay it is
	Slot    Limit         // that leaves no slot now; None: there is one
	IPDelay time.Duration // how long it would be held for the rate of its address, then closed
	TooMany bool          // its address has its maximum: it would be closed at once
}

// Forecast tells what [Connections.Acquire] would do with a connection. It
// records nothing and so changes nothing for those that do come. A listener
// that is not there is [ErrNoListener].
func (q *Connections) Forecast(name string, addr netip.Addr) (Forecast, error) {
	addr = canonical(addr)
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.listeners[name]
	if l == nil {
		return Forecast{}, ErrNoListener
	}
	ms := q.millis(time.Now())
	f := Forecast{Slot: q.full(l)}
	if !q.protected(l) {
		if f.Delay = q.created.foresee(q.window, q.config.CreationRate, ms); f.Delay > 0 {
			f.Rate = ConnectionRate
		}
	}
	if d := l.created.foresee(q.window, l.limits.CreationRate, ms); d > f.Delay {
		f.Delay, f.Rate = d, ListenerConnectionRate
	}
	connected := 0
	var measured rate
	if e := q.ips.entries[addr]; e != nil {
		connected = e.count
		if e.sensor != nil {
			measured = e.sensor.rate
		}
	}
	if limit, _ := q.ips.limit(addr); limit != Unlimited {
		f.IPDelay = measured.foresee(q.window, limit, ms)
	}
	limit, _ := q.config.perIP(addr)
	f.TooMany = connected >= limit
	return f, nil
}

// foresee is the delay that throttle would return.
func (r *rate) foresee(w window, limit int, now int64) time.Duration {
	if limit == Unlimited {
		return 0
	}
	would := rate{sampled{ring: slices.Clone(r.ring), current: r.current}}
	return would.throttle(w, limit, now)
}
