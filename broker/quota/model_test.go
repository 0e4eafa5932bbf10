package quota

import (
	"errors"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Whatever happens, in whatever order, Connections says and does what the
// reference says: see [reference].
func TestAnythingThatHappensIsAsInTheReference(t *testing.T) {
	t.Parallel()
	steps, seeds := 600, uint64(30)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 1015))
			script := make([]byte, steps*4)
			for i := range script {
				script[i] = byte(r.Uint32())
			}
			synctest.Test(t, func(t *testing.T) { play(t, script) })
		})
	}
}

// FuzzConnections holds Connections to the reference: the input is a script of
// what happens.
func FuzzConnections(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{8, 60, 400} {
		script := make([]byte, n)
		for i := range script {
			script[i] = byte(r.Uint32())
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 4000 {
			t.Skip("long")
		}
		synctest.Test(t, func(t *testing.T) { play(t, script) })
	})
}

// player does what a script says to a Connections and to its reference.
type player struct {
	t      *testing.T
	script []byte
	q      *Connections
	m      *reference
	known  []*refConn // all that came, until they were compared and closed
	closed []*refConn // some of those that were released
	woken  atomic.Int64
	steps  int
}

func (p *player) next(n int) int {
	if len(p.script) == 0 {
		return 0
	}
	b := p.script[0]
	p.script = p.script[1:]
	return int(b) % n
}

func one[T any](p *player, of ...T) T { return of[p.next(len(of))] }

func modelListeners() []string { return []string{"PLAIN", "SSL", "SASL_SSL", internal} }

func modelAddrs() []netip.Addr {
	return []netip.Addr{addr("10.0.0.1"), addr("10.0.0.2"), addr("::1"), addr("10.0.0.4")}
}

func play(t *testing.T, script []byte) {
	t.Helper()
	p := &player{t: t, script: script}
	w := Window{Samples: one(p, 11, 2, 3, 1), Size: one(p, time.Second, 2*time.Second, 300*time.Millisecond)}
	c := p.config()
	p.q, p.m = New(w, c), newReference(w, c)
	p.q.OnExcess(func() { p.woken.Add(1) })
	for i, name := range modelListeners()[:2+p.next(3)] {
		p.q.AddListener(name, i%2 == 1)
		p.m.addListener(name, i%2 == 1)
	}
	for len(p.script) > 0 && !t.Failed() {
		p.step()
	}
	p.finish()
}

func (p *player) config() Config {
	limit := func() int { return one(p, Unlimited, Unlimited, 0, 1, 2, 3, 5, 8, 12) }
	rate := func() int { return one(p, Unlimited, Unlimited, Unlimited, 0, 1, 3, 7, 20) }
	c := Config{
		MaxConnections: limit(), MaxSSLConnections: limit(), MaxPerIP: one(p, Unlimited, Unlimited, 3, 1, 0), CreationRate: rate(),
		InterBroker: one(p, internal, internal, "SSL", ""), PerIP: map[netip.Addr]int{}, Listeners: map[string]ListenerConfig{},
	}
	for range p.next(3) {
		c.PerIP[one(p, modelAddrs()...)] = one(p, 0, 2, 9, Unlimited)
	}
	for range p.next(4) {
		c.Listeners[one(p, modelListeners()...)] = ListenerConfig{limit(), rate()}
	}
	return c
}

// step does one thing and compares.
func (p *player) step() {
	p.steps++
	before, woken, was := p.m.excess(), p.woken.Load(), p.q.State()
	switch op := p.next(32); {
	case op < 11:
		p.connect()
	case op < 17:
		p.release()
	case op < 19:
		p.evict()
	case op < 20:
		p.cancel()
	case op < 21 && len(p.closed) > 0:
		p.closed[p.next(len(p.closed))].real.slot.Release() // once more
	case op < 22:
		c := p.config()
		p.m.configure(c)
		p.q.Configure(c)
	case op < 23:
		p.setIPRates()
	case op < 24:
		name, tls := one(p, modelListeners()...), p.next(2) == 1
		p.m.addListener(name, tls)
		p.q.AddListener(name, tls)
	case op < 25:
		name := one(p, modelListeners()...)
		p.m.removeListener(name)
		p.q.RemoveListener(name)
	default:
		d := one(p, 1, 10, 37, 100, 333, 1000, 1000, 2500, 12_000, 61_000, 3_700_000)
		p.m.pass(time.Duration(d) * time.Millisecond)
		pass(time.Duration(d) * time.Millisecond)
	}
	synctest.Wait()
	if p.m.excess() > before && p.woken.Load() == woken {
		p.t.Errorf("the excess went from %d to %d and nobody was woken", before, p.m.excess())
	}
	p.compare()
	p.check(was)
}

func (p *player) connect() {
	name, from := one(p, modelListeners()...), one(p, modelAddrs()...)
	c := p.m.connect(name, from)
	a := connect(p.t, p.q, name, from)
	if c == nil {
		if !errors.Is(a.err, ErrNoListener) {
			p.t.Errorf("Acquire() on no listener = %v", a.err)
		}
		return
	}
	c.real = a
	p.known = append(p.known, c)
}

func (p *player) release() {
	if n := len(p.m.conns); n > 0 {
		c := p.m.conns[p.next(n)]
		p.m.release(c)
		c.real.slot.Release()
		if len(p.closed) < 8 {
			p.closed = append(p.closed, c)
		}
	}
}

func (p *player) evict() {
	if n := len(p.m.conns); n > 0 {
		c := p.m.conns[p.next(n)]
		want := None
		if !c.claimed {
			want = p.m.exceeded(c.listener, c.listener.tls)
			c.claimed = want != None
		}
		if got, ok := c.real.slot.Evict(); got != want || ok != (want != None) {
			p.t.Errorf("Evict() = %v, %v, want %v", got, ok, want)
		}
	}
}

func (p *player) cancel() {
	if n := len(p.m.waiting); n > 0 {
		c := p.m.waiting[p.next(n)]
		p.m.abort(c, isAborted)
		c.real.cancel()
	}
}

func (p *player) setIPRates() {
	byDefault, rates := one(p, Unlimited, Unlimited, 0, 2, 10), map[netip.Addr]int{}
	for range p.next(3) {
		rates[one(p, modelAddrs()...)] = one(p, 0, 1, 6, Unlimited)
	}
	p.m.ipDefault, p.m.ipRates = byDefault, rates
	p.q.SetIPRates(byDefault, rates)
}

// compare holds every answer to the reference's.
func (p *player) compare() {
	p.known = slices.DeleteFunc(p.known, func(c *refConn) bool {
		if c.real.waits() != (c.outcome == waits) {
			p.t.Errorf("step %d: waits = %v, want %v", p.steps, c.real.waits(), c.outcome)
		}
		if c.outcome == waits || p.t.Failed() {
			return false
		}
		if got := outcomeOf(c.real.err); got != c.outcome || c.real.waited != c.waited {
			p.t.Errorf("step %d: %s after %+v, want %s after %+v", p.steps, got, c.real.waited, c.outcome, c.waited)
		}
		return true
	})
	s := p.q.State()
	perSecond, _ := p.m.created.look().rate(p.m.ms())
	if s.Connections != len(p.m.conns) || s.SSL != count(p.m.conns, isTLS) || s.CreationRate != perSecond {
		p.t.Errorf("step %d: %d connections, %d TLS, %v a second; want %d, %d, %v", p.steps,
			s.Connections, s.SSL, s.CreationRate, len(p.m.conns), count(p.m.conns, isTLS), perSecond)
	}
	if len(s.Listeners) != len(p.m.listeners) {
		p.t.Errorf("step %d: %d listeners, want %d", p.steps, len(s.Listeners), len(p.m.listeners))
	}
	for _, got := range s.Listeners {
		p.compareListener(got)
	}
	connected := 0
	for _, a := range modelAddrs() {
		n := count(p.m.conns, func(c *refConn) bool { return c.addr == a })
		if n > 0 {
			connected++
		}
		if got := p.q.IP(a); got.Connections != n || got.Max != p.m.perIP(a) || got.Rate != p.m.ipRate(a) {
			p.t.Errorf("step %d: IP(%v) = %+v, want %d connections of %d, %d a second", p.steps, a, got, n, p.m.perIP(a), p.m.ipRate(a))
		}
	}
	if s.IPs != connected {
		p.t.Errorf("step %d: %d addresses, want %d", p.steps, s.IPs, connected)
	}
	if p.steps%8 == 0 {
		p.compareSensors()
	}
}

func outcomeOf(err error) outcome {
	var many *TooManyError
	var held *ThrottledError
	switch {
	case err == nil:
		return isOpen
	case errors.As(err, &many):
		return isMany
	case errors.As(err, &held):
		return isHeld
	case errors.Is(err, ErrNoListener):
		return isGone
	}
	return isAborted
}

func (p *player) compareListener(got ListenerState) {
	l, now := p.m.listeners[got.Name], p.m.ms()
	perSecond, _ := l.created.look().rate(now)
	equal := func(a, b float64) bool { return a == b || (math.IsNaN(a) && math.IsNaN(b)) }
	if got.TLS != l.tls || got.Protected != p.m.protected(l) || got.CreationRate != perSecond ||
		got.Connections != count(p.m.conns, func(c *refConn) bool { return c.listener == l }) ||
		!equal(got.ThrottleTime, l.throttle.look().avg(now)) || !equal(got.IPThrottleTime, l.ipThrottle.look().avg(now)) ||
		got.Blocked.Count != uint64(l.blocked) {
		p.t.Errorf("step %d: listener %+v\nwant TLS %v, protected %v, %v a second, throttled %v and %v, blocked %d", p.steps, got,
			l.tls, p.m.protected(l), perSecond, l.throttle.look().avg(now), l.ipThrottle.look().avg(now), l.blocked)
	}
	if want := p.m.exceeded(l, l.tls) != None; p.q.Exceeded(got.Name) != want {
		p.t.Errorf("step %d: Exceeded(%s) = %v, want %v", p.steps, got.Name, !want, want)
	}
	i := slices.IndexFunc(p.m.waiting, func(c *refConn) bool { return c.listener == l })
	if (got.Waiting != nil) != (i >= 0) {
		p.t.Errorf("step %d: waiting = %+v, want %v", p.steps, got.Waiting, i >= 0)
	} else if i >= 0 {
		c := p.m.waiting[i]
		want := Waiting{Addr: c.addr, Since: c.since, Limit: c.rate, Delay: c.delay}
		if !p.m.now.Before(c.since.Add(c.delay)) {
			want.Limit = p.m.full(l)
		}
		if *got.Waiting != want {
			p.t.Errorf("step %d: waiting = %+v, want %+v", p.steps, *got.Waiting, want)
		}
	}
}

// compareSensors also holds the memory to what there must be.
func (p *player) compareSensors() {
	got := rates(p.q)
	entries := 0
	for _, a := range modelAddrs() {
		s := p.m.sensors[a]
		alive := s != nil && p.m.ms()-s.last <= 3_600_000
		perSecond, measured := got[a]
		if measured != alive {
			p.t.Errorf("step %d: %v has a sensor: %v, want %v", p.steps, a, measured, alive)
		} else if alive {
			if want, _ := s.look().rate(p.m.ms()); perSecond != want {
				p.t.Errorf("step %d: %v has a rate of %v, want %v", p.steps, a, perSecond, want)
			}
		}
		if alive || count(p.m.conns, func(c *refConn) bool { return c.addr == a }) > 0 {
			entries++
		}
	}
	if len(p.q.ips.entries) != entries {
		p.t.Errorf("step %d: %d addresses are remembered, want %d", p.steps, len(p.q.ips.entries), entries)
	}
}

// check holds the state itself, without the reference, to what must never be.
func (p *player) check(was State) {
	s := p.q.State()
	grown := map[string]bool{}
	for _, l := range s.Listeners {
		i := slices.IndexFunc(was.Listeners, func(o ListenerState) bool { return o.Name == l.Name })
		grown[l.Name] = i < 0 || l.Connections > was.Listeners[i].Connections
		limits := s.Config.listener(l.Name)
		if grown[l.Name] && l.Connections > limits.MaxConnections {
			p.t.Errorf("step %d: %s grew to %d over its limit of %d", p.steps, l.Name, l.Connections, limits.MaxConnections)
		}
		room := l.Connections < limits.MaxConnections &&
			(l.Protected || (s.Connections < s.Config.MaxConnections && (!l.TLS || s.SSL < s.Config.MaxSSLConnections)))
		if l.Waiting != nil && room && time.Since(l.Waiting.Since) >= l.Waiting.Delay {
			p.t.Errorf("step %d: %s waits although there is room: %+v", p.steps, l.Name, s)
		}
	}
	// A protected connection may have come, or one that waited has taken the place of another.
	exempt := slices.ContainsFunc(s.Listeners, func(l ListenerState) bool { return l.Protected && grown[l.Name] }) ||
		slices.ContainsFunc(was.Listeners, func(l ListenerState) bool { return l.Name == s.Config.InterBroker && l.Waiting != nil })
	if s.Connections > was.Connections && s.Connections > s.Config.MaxConnections && !exempt {
		p.t.Errorf("step %d: grew to %d over the broker's limit of %d", p.steps, s.Connections, s.Config.MaxConnections)
	}
	if s.SSL > was.SSL && s.SSL > s.Config.MaxSSLConnections && !exempt {
		p.t.Errorf("step %d: TLS grew to %d over its limit of %d", p.steps, s.SSL, s.Config.MaxSSLConnections)
	}
}

// finish closes everything: nothing must be left.
func (p *player) finish() {
	for len(p.m.waiting) > 0 {
		p.m.waiting[0].real.cancel()
		synctest.Wait()
		p.m.abort(p.m.waiting[0], isAborted)
	}
	p.compare()
	for len(p.m.conns) > 0 {
		c := p.m.conns[len(p.m.conns)-1]
		p.m.release(c)
		c.real.slot.Release()
	}
	p.compare()
	pass(2 * time.Hour)
	p.q.EachIPRate(func(a netip.Addr, _ float64) bool {
		p.t.Errorf("the rate of %v is still measured", a)
		return true
	})
	if s := p.q.State(); s.Connections != 0 || s.SSL != 0 || s.IPs != 0 || len(p.q.ips.entries) != 0 || len(p.q.waiting) != 0 || p.q.claims != 0 || p.q.sslClaims != 0 || p.q.excess.Load() != 0 {
		p.t.Errorf("left: %+v, %d entries, %d waiting, %d claims", s, len(p.q.ips.entries), len(p.q.waiting), p.q.claims)
	}
}
