package quota

import (
	"net/netip"
	"testing"
	"time"
)

func TestLimitsHaveKafkasNames(t *testing.T) {
	for limit, want := range map[Limit]string{
		None:                   "none",
		MaxConnections:         "max.connections",
		ListenerMaxConnections: "listener.name.sasl_ssl.max.connections",
		MaxSSLConnections:      "max.ssl.connections",
		MaxConnectionsPerIP:    "max.connections.per.ip",
		ConnectionRate:         "max.connection.creation.rate",
		ListenerConnectionRate: "listener.name.sasl_ssl.max.connection.creation.rate",
		IPConnectionRate:       "connection_creation_rate",
	} {
		if got := limit.Key("SASL_SSL"); got != want {
			t.Errorf("Key() = %q, want %q", got, want)
		}
	}
	if got := ListenerConnectionRate.String(); got != "max.connection.creation.rate" {
		t.Errorf("String() = %q", got)
	}
}

// What a caller does with its maps later changes nothing.
func TestConfigsAreCopied(t *testing.T) {
	c := limited(func(c *Config) { c.PerIP = map[netip.Addr]int{own(external): 1} })
	q := New(Window{}, c)
	overrides := map[netip.Addr]int{own(external): 3}
	q.SetIPRates(Unlimited, overrides)
	c.PerIP[own(external)], overrides[own(external)] = 7, 7
	c.Listeners[external] = ListenerConfig{}
	q.AddListener(external, false)
	if got := q.IP(own(external)); got.Max != 1 || got.Rate != 3 {
		t.Errorf("IP() = %+v, want what was set", got)
	}
	if _, _, err := q.Acquire(t.Context(), external, own(admin)); err != nil {
		t.Error(err)
	}
	s := q.State()
	if s.IPDefaultRate != Unlimited || s.IPRates[own(external)] != 3 || s.Config.PerIP[own(external)] != 1 {
		t.Errorf("state = %+v", s)
	}
}

func TestWindowsAreKafkasUnlessGiven(t *testing.T) {
	for given, want := range map[Window]window{
		{}:                                  {11, 1000},
		{Samples: -1, Size: -time.Second}:   {11, 1000},
		{Samples: 2}:                        {2, 1000},
		{Samples: 1, Size: 5 * time.Second}: {1, 5000},
	} {
		if got := New(given, Default()).window; got != want {
			t.Errorf("window of %v = %v, want %v", given, got, want)
		}
	}
}

func TestErrorsSayWhatTheLimitIs(t *testing.T) {
	many := &TooManyError{Addr: addr("192.0.2.1"), Listener: external, Max: 3}
	if got, want := many.Error(), "192.0.2.1 already has the configured maximum of 3 connections"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	held := &ThrottledError{Addr: addr("192.0.2.1"), Listener: external, Delay: time.Second, Rate: 5}
	if got, want := held.Error(), "192.0.2.1 connects faster than its quota of 5 a second: held for 1s"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
}
