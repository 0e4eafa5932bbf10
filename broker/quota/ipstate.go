package quota

import (
	"net/netip"
	"time"
)

// IPState is one address.
type IPState struct {
	Connections  int
	Max          int     // its maximum of connections
	Rate         int     // its quota of new connections a second, Unlimited: none
	CreationRate float64 // what it is, while there is a quota
	Override     bool    // Max is the address's own
	RateOverride bool    // Rate is the address's own
}

// IP is what is counted, measured and allowed of one address.
func (q *Connections) IP(addr netip.Addr) IPState {
	addr = canonical(addr)
	q.mu.Lock()
	defer q.mu.Unlock()
	var s IPState
	s.Max, s.Override = q.config.perIP(addr)
	s.Rate, s.RateOverride = q.ips.limit(addr)
	if e := q.ips.entries[addr]; e != nil {
		s.Connections = e.count
		if e.sensor != nil {
			s.CreationRate, _ = e.sensor.measure(q.window, q.millis(time.Now()))
		}
	}
	return s
}

// EachIP calls f with each address that has connections until f returns false,
// in no order, with no lock held.
func (q *Connections) EachIP(f func(addr netip.Addr, connections int) bool) {
	type row struct {
		addr  netip.Addr
		count int
	}
	var rows []row
	q.visit(func(e *ipEntry) {
		if e.count > 0 {
			rows = append(rows, row{e.addr, e.count})
		}
	})
	for _, r := range rows {
		if !f(r.addr, r.count) {
			return
		}
	}
}

// EachIPRate calls f with each address whose rate is measured, likewise: it has
// connected under a quota in the last hour.
func (q *Connections) EachIPRate(f func(addr netip.Addr, perSecond float64) bool) {
	type row struct {
		addr      netip.Addr
		perSecond float64
	}
	now := q.millis(time.Now())
	q.mu.Lock()
	for !q.ips.expire(now, visitAtOnce) {
		q.pause()
	}
	q.mu.Unlock()
	var rows []row
	q.visit(func(e *ipEntry) {
		if e.sensor != nil {
			perSecond, _ := e.sensor.measure(q.window, now)
			rows = append(rows, row{e.addr, perSecond})
		}
	})
	for _, r := range rows {
		if !f(r.addr, r.perSecond) {
			return
		}
	}
}
