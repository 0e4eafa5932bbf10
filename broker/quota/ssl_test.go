package quota

import (
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// withTLS has a plaintext and two TLS listeners and an inter-broker listener
// that may speak TLS as well.
func withTLS(c Config, internalTLS bool) *Connections {
	q := New(Window{}, c)
	q.AddListener(external, false)
	q.AddListener(secure, true)
	q.AddListener("SASL_SSL", true)
	q.AddListener(internal, internalTLS)
	return q
}

func counts(t *testing.T, q *Connections, total, ssl int) {
	t.Helper()
	if s := q.State(); s.Connections != total || s.SSL != ssl {
		t.Errorf("connections = %d, of them TLS %d; want %d and %d", s.Connections, s.SSL, total, ssl)
	}
}

func TestTheTLSLimitHoldsTLSConnectionsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withTLS(limited(func(c *Config) { c.MaxSSLConnections = 2 }), false)
		in := open(t, q, secure, 2)
		if !in[0].slot.TLS() {
			t.Error("a slot of a TLS listener is not TLS")
		}
		third := connect(t, q, secure, own(secure))
		third.mustWait(t, "third TLS connection")
		plain := open(t, q, external, 5)
		if plain[0].slot.TLS() {
			t.Error("a slot of a plaintext listener is TLS")
		}
		plain[0].slot.Release()
		synctest.Wait()
		third.mustWait(t, "a plaintext connection closed")
		if w := listenerState(t, q, secure).Waiting; w == nil || w.Limit != MaxSSLConnections {
			t.Errorf("waiting = %+v, want for max.ssl.connections", w)
		}
		pass(3 * time.Second)
		in[0].slot.Release()
		<-third.done
		third.mustBeIn(t, "a TLS connection closed")
		counts(t, q, 6, 2)
		for name, blocked := range map[string]bool{secure: true, external: false, "SASL_SSL": false} {
			if got := listenerState(t, q, name).Blocked.Count; (got > 0) != blocked {
				t.Errorf("blocked time of %s = %d", name, got)
			}
		}
	})
}

func TestTLSListenersShareTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withTLS(limited(func(c *Config) { c.MaxSSLConnections = 2 }), false)
		first := open(t, q, secure, 1)[0]
		open(t, q, "SASL_SSL", 1)
		a := connect(t, q, "SASL_SSL", own(secure))
		a.mustWait(t, "third TLS connection")
		first.slot.Release()
		<-a.done
		a.mustBeIn(t, "one on the other TLS listener closed")
		counts(t, q, 2, 2)
	})
}

func TestPlaintextMayTakeAllOfTheBrokerBesideATLSLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withTLS(limited(func(c *Config) { c.MaxConnections, c.MaxSSLConnections = 10, 5 }), false)
		open(t, q, external, 10)
	})
}

func TestATLSInterBrokerListenerIsExemptYetCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withTLS(limited(func(c *Config) { c.MaxSSLConnections = 2 }), true)
		in := open(t, q, secure, 2)
		plain := open(t, q, external, 1)[0]
		brokers := open(t, q, internal, 2)
		counts(t, q, 5, 4)
		if !q.Exceeded(secure) || !q.Exceeded("SASL_SSL") || q.Exceeded(internal) || q.Exceeded(external) {
			t.Errorf("Exceeded() = %v, %v, %v, %v, want it of the TLS listeners but the inter-broker one",
				q.Exceeded(secure), q.Exceeded("SASL_SSL"), q.Exceeded(internal), q.Exceeded(external))
		}
		for _, a := range []*attempt{plain, brokers[0]} {
			if limit, ok := a.slot.Evict(); ok {
				t.Errorf("a plaintext or inter-broker connection was claimed for %v", limit)
			}
		}
		for _, a := range in {
			if limit, ok := a.slot.Evict(); !ok || limit != MaxSSLConnections {
				t.Errorf("Evict() = %v, %v, want a claim for max.ssl.connections", limit, ok)
			}
		}
		if q.Exceeded(secure) {
			t.Error("Exceeded() although enough are claimed")
		}
	})
}

func TestAloneATLSInterBrokerListenerIsHeldToTheLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(Window{}, limited(func(c *Config) { c.MaxSSLConnections = 1 }))
		q.AddListener(internal, true)
		open(t, q, internal, 1)
		a := connect(t, q, internal, own(internal))
		a.mustWait(t, "second TLS connection without protection")
		q.AddListener(external, false)
		<-a.done
		a.mustBeIn(t, "another listener protects it")
		if q.Exceeded(internal) {
			t.Error("Exceeded() of a protected listener")
		}
		q.RemoveListener(external)
		if !q.Exceeded(internal) {
			t.Error("Exceeded() = false, want the protection gone with the other listener")
		}
	})
}

func TestZeroTLSConnectionsAdmitNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withTLS(limited(func(c *Config) { c.MaxSSLConnections = 0 }), true)
		a := connect(t, q, secure, own(secure))
		a.mustWait(t, "TLS connection")
		open(t, q, external, 1)
		open(t, q, internal, 1)
		a.cancel()
		<-a.done
	})
}

func TestLoweringTheTLSLimitEvictsAndRaisingItAdmits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withTLS(limited(func(*Config) {}), false)
		woken := 0
		q.OnExcess(func() { woken++ })
		in := open(t, q, secure, 3)
		plain := open(t, q, external, 3)
		q.Configure(limited(func(c *Config) { c.MaxSSLConnections = 1 }))
		if woken != 1 {
			t.Errorf("loops were woken %d times, want once", woken)
		}
		if _, ok := plain[0].slot.Evict(); ok || q.Exceeded(external) {
			t.Error("plaintext is to be evicted for the TLS limit")
		}
		evicted := 0
		for _, a := range in {
			if limit, ok := a.slot.Evict(); ok && limit == MaxSSLConnections {
				evicted++
				a.slot.Release()
			}
		}
		if evicted != 2 {
			t.Errorf("evicted %d, want 2", evicted)
		}
		a := connect(t, q, secure, own(secure))
		a.mustWait(t, "TLS connection at the limit")
		q.Configure(limited(func(c *Config) { c.MaxSSLConnections = 10 }))
		<-a.done
		a.mustBeIn(t, "the limit was raised")
		counts(t, q, 5, 2)
	})
}

// With both limits full a plaintext close does not let the TLS waiter in.
func TestATLSWaiterNeedsBothLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withTLS(limited(func(c *Config) { c.MaxConnections, c.MaxSSLConnections = 4, 2 }), false)
		in := open(t, q, secure, 2)
		plain := open(t, q, external, 2)
		a := connect(t, q, secure, own(secure))
		if w := listenerState(t, q, secure).Waiting; w.Limit != MaxConnections {
			t.Errorf("waits for %v, want the broker's limit to be the first", w.Limit)
		}
		plain[0].slot.Release()
		synctest.Wait()
		a.mustWait(t, "a plaintext connection closed")
		if w := listenerState(t, q, secure).Waiting; w.Limit != MaxSSLConnections {
			t.Errorf("waits for %v, want the TLS limit now", w.Limit)
		}
		in[0].slot.Release()
		<-a.done
		a.mustBeIn(t, "a TLS connection closed")
		if a.waited.Limit != MaxSSLConnections {
			t.Errorf("waited = %+v, want the limit that held it last", a.waited)
		}
	})
}

// A name that is added again with another protocol is a new listener; who is in
// keeps the class that it was admitted with, and gives it back.
func TestAConnectionKeepsTheClassItWasAdmittedWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withTLS(limited(func(c *Config) { c.MaxSSLConnections = 2 }), false)
		old := open(t, q, secure, 2)
		q.RemoveListener(secure)
		counts(t, q, 2, 2)
		q.AddListener(secure, false)
		if got := listenerState(t, q, secure); got.Connections != 0 || got.TLS {
			t.Errorf("state = %+v, want a new plaintext listener", got)
		}
		fresh := open(t, q, secure, 3)
		counts(t, q, 5, 2)
		a := connect(t, q, "SASL_SSL", own(secure))
		a.mustWait(t, "third TLS connection")
		fresh[0].slot.Release()
		synctest.Wait()
		a.mustWait(t, "a plaintext connection closed")
		old[0].slot.Release()
		<-a.done
		a.mustBeIn(t, "one that was admitted as TLS closed")
		if got := listenerState(t, q, secure).Connections; got != 2 {
			t.Errorf("connections of the new listener = %d, want 2", got)
		}
		counts(t, q, 4, 2)
	})
}

func TestTLSCountsAreRightAfterEveryKindOfEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := withTLS(limited(func(c *Config) { c.MaxPerIP = 1 }), false)
		in := open(t, q, secure, 1)[0]
		var many *TooManyError
		a := connect(t, q, secure, own(secure))
		if !errors.As(a.err, &many) || !a.slot.TLS() {
			t.Fatalf("error = %v, TLS = %v", a.err, a.slot.TLS())
		}
		counts(t, q, 2, 2)
		a.slot.Release()
		counts(t, q, 1, 1)
		q.SetIPRates(Unlimited, map[netip.Addr]int{own(secure): 0})
		var held *ThrottledError
		if a = connect(t, q, secure, own(secure)); !errors.As(a.err, &held) {
			t.Fatalf("error = %v", a.err)
		}
		a.slot.Release()
		counts(t, q, 1, 1)
		in.slot.Release()
		counts(t, q, 0, 0)
		if !in.slot.TLS() {
			t.Error("a released slot forgot its class")
		}
	})
}
