package quota

import (
	"maps"
	"math"
	"net/netip"
	"time"
)

// Unlimited is Kafka's default of every limit: off.
const Unlimited = math.MaxInt32

// Config is the limits in effect. Zero admits nothing, [Unlimited] everything;
// [Default] is where to start from, not the zero value.
type Config struct {
	MaxConnections    int // of the broker; a protected listener is exempt, but counts
	MaxSSLConnections int // of the broker's TLS listeners, likewise
	MaxPerIP          int // of an address over all listeners
	CreationRate      int // a second, of the broker without a protected listener

	// PerIP is instead of MaxPerIP for its addresses.
	PerIP map[netip.Addr]int
	// Listeners by name, as configured (capitals). What falls back to the
	// broker's value is resolved; a listener that is missing is unlimited.
	Listeners map[string]ListenerConfig
	// InterBroker is the listener that is protected from the broker's own
	// limits while there is another beside it.
	InterBroker string
}

// ListenerConfig is the limits of one listener. The inter-broker listener is
// held to them as well.
type ListenerConfig struct {
	MaxConnections int
	CreationRate   int // a second
}

// Default limits nothing.
func Default() Config {
	return Config{MaxConnections: Unlimited, MaxSSLConnections: Unlimited, MaxPerIP: Unlimited, CreationRate: Unlimited}
}

// clone has maps of its own, with canonical addresses.
func (c Config) clone() Config {
	c.PerIP = canonicalKeys(c.PerIP)
	c.Listeners = maps.Clone(c.Listeners)
	return c
}

// listener is the limits of the listener with that name.
func (c Config) listener(name string) ListenerConfig {
	if l, ok := c.Listeners[name]; ok {
		return l
	}
	return ListenerConfig{MaxConnections: Unlimited, CreationRate: Unlimited}
}

// perIP is the maximum of an address and whether it is its own.
func (c Config) perIP(addr netip.Addr) (maximum int, override bool) {
	if len(c.PerIP) > 0 {
		if maximum, override = c.PerIP[addr]; override {
			return maximum, true
		}
	}
	return c.MaxPerIP, false
}

// Window is what rates are measured over: quota.window.num samples of
// quota.window.size.seconds each. What is not positive is Kafka's default, 11
// and one second.
type Window struct {
	Samples int
	Size    time.Duration // whole milliseconds
}

func (w Window) resolve() Window {
	if w.Samples <= 0 {
		w.Samples = 11
	}
	if w.Size < time.Millisecond {
		w.Size = time.Second
	}
	return w
}

// canonical is the address that a limit is counted by: without the zone, which
// Java does not compare either, and IPv4 as itself.
func canonical(addr netip.Addr) netip.Addr {
	return addr.Unmap().WithZone("")
}

func canonicalKeys(m map[netip.Addr]int) map[netip.Addr]int {
	c := make(map[netip.Addr]int, len(m))
	for addr, value := range m {
		c[canonical(addr)] = value
	}
	return c
}
