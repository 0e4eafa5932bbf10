package quota

import (
	"math"
	"net/netip"
	"slices"
	"time"
)

// javaStat is Kafka's SampledStat, line for line, with the sums of WindowedSum.
type javaStat struct {
	samples  int
	windowMs int64
	all      []javaSample
	current  int
}

type javaSample struct {
	value                            float64
	eventCount, startTime, lastEvent int64
}

func (s *javaStat) record(value float64, now int64) {
	if len(s.all) == 0 {
		s.all = append(s.all, javaSample{startTime: now, lastEvent: now})
	}
	if now-s.all[s.current].startTime >= s.windowMs {
		s.current = (s.current + 1) % (s.samples + 1)
		if s.current >= len(s.all) {
			s.all = append(s.all, javaSample{})
		}
		s.all[s.current] = javaSample{startTime: now, lastEvent: now}
	}
	s.all[s.current].value += value
	s.all[s.current].eventCount++
	s.all[s.current].lastEvent = now
}

func (s *javaStat) purge(now int64) {
	for i := range s.all {
		if now-s.all[i].lastEvent >= int64(s.samples)*s.windowMs {
			s.all[i] = javaSample{startTime: now, lastEvent: now}
		}
	}
}

// rate is Rate.measure with the windowSize that it uses.
func (s *javaStat) rate(now int64) (perSecond float64, windowSize int64) {
	s.purge(now)
	if len(s.all) == 0 {
		s.all = append(s.all, javaSample{startTime: now, lastEvent: now})
	}
	total, oldest := 0.0, int64(math.MaxInt64)
	for _, sample := range s.all {
		total += sample.value
		oldest = min(oldest, sample.startTime)
	}
	elapsed := now - oldest
	if full, least := elapsed/s.windowMs, int64(s.samples-1); full < least {
		elapsed += (least - full) * s.windowMs
	}
	elapsed = max(elapsed, 1)
	return total / (float64(elapsed) / 1000), elapsed
}

// throttleMs is Sensor.record and QuotaUtils.boundedThrottleTime.
func (s *javaStat) throttleMs(limit int, now int64) int64 {
	s.record(1, now)
	value, windowSize := s.rate(now)
	if value <= float64(limit) {
		return 0
	}
	exact := (value - float64(limit)) / float64(limit) * float64(windowSize)
	return int64(min(math.Floor(exact+0.5), float64(s.windowMs)))
}

// avg is Avg.combine.
func (s *javaStat) avg(now int64) float64 {
	s.purge(now)
	total, count := 0.0, int64(0)
	for _, sample := range s.all {
		total += sample.value
		count += sample.eventCount
	}
	if count == 0 {
		return math.NaN()
	}
	return total / float64(count)
}

// look is a copy: reading changes Kafka's.
func (s *javaStat) look() *javaStat {
	c := *s
	c.all = slices.Clone(s.all)
	return &c
}

// reference is what Connections is held to: everything is counted anew whenever
// it is asked for, and nothing is fast. It runs on a clock that it is told.
type reference struct {
	now       time.Time
	start     time.Time
	window    Window
	c         Config
	ipDefault int
	ipRates   map[netip.Addr]int
	listeners map[string]*refListener
	conns     []*refConn
	waiting   []*refConn
	created   javaStat
	sensors   map[netip.Addr]*refSensor
}

type refListener struct {
	name                          string
	tls                           bool
	created, throttle, ipThrottle javaStat
	blocked                       time.Duration
}

type refSensor struct {
	javaStat
	last int64
}

// refConn is a connection that waits, is open, or has ended.
type refConn struct {
	listener *refListener
	addr     netip.Addr
	since    time.Time
	delay    time.Duration
	rate     Limit
	onBroker bool // recorded on the broker's rate
	claimed  bool

	outcome outcome
	waited  Waited
	real    *attempt
}

type outcome string

const (
	waits     outcome = "waits"
	isOpen    outcome = "open"
	isMany    outcome = "many"
	isHeld    outcome = "held"
	isGone    outcome = "no listener"
	isAborted outcome = "aborted"
)

func newReference(w Window, c Config) *reference {
	w = w.resolve()
	m := &reference{
		now: time.Now(), start: time.Now(), window: w, c: c, ipDefault: Unlimited,
		listeners: map[string]*refListener{}, sensors: map[netip.Addr]*refSensor{},
	}
	m.created = m.stat()
	return m
}

func (m *reference) stat() javaStat {
	return javaStat{samples: m.window.Samples, windowMs: m.window.Size.Milliseconds()}
}

func (m *reference) ms() int64 { return m.now.Sub(m.start).Milliseconds() }

func count(conns []*refConn, which func(c *refConn) bool) (n int) {
	for _, c := range conns {
		if which(c) {
			n++
		}
	}
	return n
}

func all(*refConn) bool         { return true }
func isTLS(c *refConn) bool     { return c.listener.tls }
func isClaimed(c *refConn) bool { return c.claimed }

func (m *reference) protected(l *refListener) bool {
	return l.name == m.c.InterBroker && len(m.listeners) > 1
}

func (m *reference) limits(l *refListener) ListenerConfig {
	if c, ok := m.c.Listeners[l.name]; ok {
		return c
	}
	return ListenerConfig{Unlimited, Unlimited}
}

// full is the slot test of the specification.
func (m *reference) full(l *refListener) Limit {
	if count(m.conns, func(c *refConn) bool { return c.listener == l }) >= m.limits(l).MaxConnections {
		return ListenerMaxConnections
	}
	if m.protected(l) {
		return None
	}
	if count(m.conns, all) >= m.c.MaxConnections {
		return MaxConnections
	}
	if l.tls && count(m.conns, isTLS) >= m.c.MaxSSLConnections {
		return MaxSSLConnections
	}
	return None
}

func (m *reference) ipRate(addr netip.Addr) int {
	if r, ok := m.ipRates[addr]; ok {
		return r
	}
	return m.ipDefault
}

func (m *reference) perIP(addr netip.Addr) int {
	if n, ok := m.c.PerIP[addr]; ok {
		return n
	}
	return m.c.MaxPerIP
}

// connect is a connection that comes; nil on a listener that is not there.
func (m *reference) connect(name string, addr netip.Addr) *refConn {
	l := m.listeners[name]
	if l == nil {
		return nil
	}
	c := &refConn{listener: l, addr: addr, since: m.now, outcome: waits}
	broker := int64(0)
	if c.onBroker = !m.protected(l); c.onBroker {
		broker = m.created.throttleMs(m.c.CreationRate, m.ms())
	}
	own := l.created.throttleMs(m.limits(l).CreationRate, m.ms())
	delay := max(broker, own)
	if delay > 0 {
		l.throttle.record(float64(delay), m.ms())
		c.rate = ConnectionRate
		if own > broker {
			c.rate = ListenerConnectionRate
		}
	}
	c.delay = time.Duration(delay) * time.Millisecond
	m.waiting = append(m.waiting, c)
	m.settle()
	return c
}

// look keeps the limit that leaves no slot to each who waits for one, before
// something changes.
func (m *reference) look() {
	for _, c := range m.waiting {
		if !m.now.Before(c.since.Add(c.delay)) && m.full(c.listener) != None {
			c.waited.Limit = m.full(c.listener)
		}
	}
}

// settle lets in who may go, one by one, until nobody may.
func (m *reference) settle() {
	for i := 0; i < len(m.waiting); i++ {
		c := m.waiting[i]
		if m.now.Before(c.since.Add(c.delay)) || m.full(c.listener) != None {
			continue
		}
		m.waiting = slices.Delete(m.waiting, i, i+1)
		m.admit(c)
		i = -1
	}
}

func (m *reference) admit(c *refConn) {
	c.listener.blocked += m.now.Sub(c.since)
	if limit := m.ipRate(c.addr); limit != Unlimited {
		s := m.sensors[c.addr]
		if s == nil || m.ms()-s.last > 3_600_000 {
			s = &refSensor{javaStat: m.stat()}
			m.sensors[c.addr] = s
		}
		s.last = m.ms()
		if delay := s.throttleMs(limit, m.ms()); delay > 0 {
			s.record(-1, m.ms())
			c.listener.created.record(-1, m.ms())
			c.listener.ipThrottle.record(float64(delay), m.ms())
			if c.onBroker {
				m.created.record(-1, m.ms())
			}
			m.end(c, isHeld)
			return
		}
	}
	before := count(m.conns, func(o *refConn) bool { return o.addr == c.addr })
	m.conns = append(m.conns, c)
	if before >= m.perIP(c.addr) {
		m.end(c, isMany)
		return
	}
	m.end(c, isOpen)
}

// end ends the wait of a connection.
func (m *reference) end(c *refConn, o outcome) {
	c.outcome = o
	spent := m.now.Sub(c.since)
	if c.waited.Limit == None {
		c.waited = Waited{Rate: spent, Limit: c.rate}
		return
	}
	c.waited.Rate = min(spent, c.delay)
	c.waited.Slot = spent - c.waited.Rate
}

func (m *reference) abort(c *refConn, o outcome) {
	m.look()
	m.waiting = slices.DeleteFunc(m.waiting, func(w *refConn) bool { return w == c })
	m.end(c, o)
}

func (m *reference) release(c *refConn) {
	m.look()
	m.conns = slices.DeleteFunc(m.conns, func(o *refConn) bool { return o == c })
	m.settle()
}

func (m *reference) configure(c Config) {
	m.look()
	m.c = c
	m.settle()
}

func (m *reference) addListener(name string, tls bool) {
	m.drop(name)
	average := javaStat{samples: 2, windowMs: 30_000}
	m.listeners[name] = &refListener{name: name, tls: tls, created: m.stat(), throttle: average, ipThrottle: average}
	m.settle()
}

func (m *reference) removeListener(name string) {
	m.drop(name)
	m.settle()
}

func (m *reference) drop(name string) {
	m.look()
	for _, c := range slices.Clone(m.waiting) {
		if c.listener == m.listeners[name] {
			m.abort(c, isGone)
		}
	}
	delete(m.listeners, name)
}

// pass lets time go by, stopping wherever a delay ends.
func (m *reference) pass(d time.Duration) {
	target := m.now.Add(d)
	for {
		next := target
		for _, c := range m.waiting {
			if over := c.since.Add(c.delay); over.After(m.now) && over.Before(next) {
				next = over
			}
		}
		m.now = next
		m.look()
		m.settle()
		if next.Equal(target) {
			return
		}
	}
}

// exceeded is the limit for which a connection of that listener and class has to
// be closed.
func (m *reference) exceeded(l *refListener, tls bool) Limit {
	left := slices.DeleteFunc(slices.Clone(m.conns), isClaimed)
	switch {
	case m.protected(l):
		return None
	case len(left) > m.c.MaxConnections:
		return MaxConnections
	case tls && count(left, isTLS) > m.c.MaxSSLConnections:
		return MaxSSLConnections
	}
	return None
}

// excess is by how many connections a limit is exceeded.
func (m *reference) excess() int {
	left := slices.DeleteFunc(slices.Clone(m.conns), isClaimed)
	return max(0, len(left)-m.c.MaxConnections, count(left, isTLS)-m.c.MaxSSLConnections)
}
