package quota

import (
	"maps"
	"net/netip"
	"time"
)

const (
	// sensorLife is how long an address's rate is kept after its last
	// connection under a quota (server/…/ConnectionQuotaEntity.java).
	sensorLife = int64(time.Hour / time.Millisecond)
	// spareEntries are kept for addresses to come.
	spareEntries = 256
	// expireAtOnce bounds the work of one admission; each makes one at most.
	expireAtOnce = 2
	// shrinkAbove is how many addresses make the table worth making anew when
	// most are gone: a map of Go's keeps its size.
	shrinkAbove = 4096
	// visitAtOnce is for how many addresses an onlooker keeps others waiting.
	visitAtOnce = 1000
)

// ipEntry is one address: there while it has connections or a sensor.
type ipEntry struct {
	addr   netip.Addr
	count  int
	sensor *sensor
}

// sensor measures the rate of one address. Sensors are a list, least recently
// recorded first.
type sensor struct {
	rate
	entry      *ipEntry
	last       int64
	prev, next *sensor
}

// ipTable is the addresses that have connections or a sensor, and the rates
// that they are held to. Guarded by the lock of its Connections.
type ipTable struct {
	entries   map[netip.Addr]*ipEntry
	most      int // that entries has held
	connected int // entries with connections
	rate      int
	rates     map[netip.Addr]int
	sensors   sensor // the list's root
	spare     []*ipEntry
}

func (t *ipTable) init() {
	t.entries, t.rate = map[netip.Addr]*ipEntry{}, Unlimited
	t.sensors.prev, t.sensors.next = &t.sensors, &t.sensors
}

// entry is the entry of the address, which may be new: drop it when it got
// neither a connection nor a sensor.
func (t *ipTable) entry(addr netip.Addr) *ipEntry {
	e := t.entries[addr]
	if e == nil {
		if n := len(t.spare); n > 0 {
			e = t.spare[n-1]
			t.spare = t.spare[:n-1]
		} else {
			e = &ipEntry{}
		}
		e.addr = addr
		t.entries[addr] = e
		t.most = max(t.most, len(t.entries))
	}
	return e
}

// drop forgets the entry when nothing is left of it.
func (t *ipTable) drop(e *ipEntry) {
	if e.count > 0 || e.sensor != nil {
		return
	}
	delete(t.entries, e.addr)
	*e = ipEntry{}
	if len(t.spare) < spareEntries {
		t.spare = append(t.spare, e)
	}
	if t.most > shrinkAbove && len(t.entries) < t.most/16 {
		t.entries = maps.Collect(maps.All(t.entries))
		t.most = len(t.entries)
	}
}

// limit is the rate of an address and whether it is its own.
func (t *ipTable) limit(addr netip.Addr) (perSecond int, override bool) {
	if len(t.rates) > 0 {
		if perSecond, override = t.rates[addr]; override {
			return perSecond, true
		}
	}
	return t.rate, false
}

// touch makes the sensor of an address, or finds it, and marks it as used.
func (t *ipTable) touch(e *ipEntry, now int64) *sensor {
	s := e.sensor
	if s == nil {
		s = &sensor{entry: e}
		e.sensor = s
	} else {
		s.prev.next, s.next.prev = s.next, s.prev
		if now-s.last > sensorLife { // expired, and not dropped yet
			s.rate = rate{}
		}
	}
	s.last = now
	root := &t.sensors
	s.prev, s.next = root.prev, root
	root.prev.next, root.prev = s, s
	return s
}

// expire drops up to n sensors that recorded nothing for an hour, and says
// whether that was all.
func (t *ipTable) expire(now int64, n int) bool {
	for ; n > 0; n-- {
		s := t.sensors.next
		if s == &t.sensors || now-s.last <= sensorLife {
			return true
		}
		s.prev.next, s.next.prev = s.next, s.prev
		s.entry.sensor = nil
		t.drop(s.entry)
	}
	return false
}

// visit calls f with each entry, holding the lock. It lets others have it now
// and then: who comes or goes meanwhile may be missed.
func (q *Connections) visit(f func(e *ipEntry)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for _, e := range q.ips.entries {
		f(e)
		n++
		if n%visitAtOnce == 0 {
			q.pause()
		}
	}
}

// pause lets others have the lock.
func (q *Connections) pause() {
	q.mu.Unlock()
	q.mu.Lock()
}
