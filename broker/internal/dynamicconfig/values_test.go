package dynamicconfig_test

import (
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/broker/internal/dynamicconfig"
)

func TestTheStrongerLevelWins(t *testing.T) {
	t.Parallel()
	v := dynamicconfig.Merge(
		map[string]string{"num.io.threads": "4", "max.connections": "40", "listener.name.ext.max.connections": "3", "log.roll.ms": "7"},
		map[string]string{"num.io.threads": "5", "max.connections": "50"},
		map[string]string{"num.io.threads": "6", "log.roll.hours": "1"})
	for _, c := range []struct{ listener, name, want string }{
		{"", "num.io.threads", "6"},
		{"", "max.connections", "50"},
		{"EXT", "max.connections", "3"}, // a listener's own, at whatever level
		{"OTHER", "max.connections", "50"},
		{"EXT", "num.network.threads", "3"},
		{"", "log.roll.ms", ""}, // a stronger level's unit takes its place
		{"", "log.roll.hours", "1"},
		{"", "nobody.knows", ""},
	} {
		got := v.Get(c.name)
		if c.listener != "" {
			got = v.Of(c.listener, c.name)
		}
		if got != c.want {
			t.Errorf("%s of listener %q = %q, want %q", c.name, c.listener, got, c.want)
		}
	}
}

func TestSetsArePrintedAsJavaPrintsThem(t *testing.T) {
	t.Parallel()
	// Kafka 4.4.0 printed the first and the last; the second is in no other order in Java either.
	for want, names := range map[string][]string{
		"[node.id, log.dirs]": {"log.dirs", "node.id"}, "[node.id]": {"node.id"},
		"[max.connections.per.ip.overrides, min.insync.replicas, max.connections, max.connections.per.ip]": {
			"max.connections", "max.connections.per.ip", "max.connections.per.ip.overrides", "min.insync.replicas",
		},
	} {
		if got := dynamicconfig.JavaSet(names); got != want {
			t.Errorf("JavaSet(%v) = %s, want %s", names, got, want)
		}
	}
}

func TestWhatARefusalLooksAt(t *testing.T) {
	t.Parallel()
	static := dynamicconfig.Values{"listeners": "PLAINTEXT://:9092,EXT://:9093", "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXT:SSL,NEW:SSL"}
	for _, c := range []struct {
		rule string
		next map[string]string
		want string
	}{
		{"a base value is no limit of a listener that has its own", map[string]string{
			"max.connections": "0", "listener.name.plaintext.max.connections": "5", "listener.name.ext.max.connections": "5",
		}, ""},
		{"a base value is the limit of the others", map[string]string{"max.connections": "0", "listener.name.ext.max.connections": "5"}, "Invalid max.connections 0"},
		{"TLS connections are never none", map[string]string{"max.ssl.connections": "0"}, "Invalid max.ssl.connections 0"},
		{"a port may be shared by one IPv4 and one IPv6 address", map[string]string{"listeners": "PLAINTEXT://127.0.0.1:9092,EXT://[::1]:9092"}, ""},
		{"but not by three", map[string]string{"listeners": "PLAINTEXT://127.0.0.1:9092,EXT://[::1]:9092,NEW://[::2]:9092"}, "one needs to be IPv4"},
		{"every address of IPv4 cannot be advertised", map[string]string{"listeners": "PLAINTEXT://:9092,EXT://:9093,NEW://0.0.0.0:9094"}, "nonroutable meta-address"},
		{"the listener between brokers stays", map[string]string{"listeners": "EXT://:9093"}, "inter.broker.listener.name must be a listener name"},
		{"a listener that is advertised stays", map[string]string{"listeners": "PLAINTEXT://:9092"}, "Advertised listeners 'Set(ListenerName(PLAINTEXT), ListenerName(EXT))' must be a subset of listeners 'Set(ListenerName(PLAINTEXT))'"},
		{"an IPv6 address without brackets is read", map[string]string{"listeners": "PLAINTEXT://:9092,EXT://:9093,NEW://::1:9094"}, ""},
		{"a segment is rolled at some time", map[string]string{"log.roll.ms": "0"}, "requirement failed: log.roll.ms must be greater than or equal to 1"},
		{"and not before", map[string]string{"log.roll.jitter.ms": "-1"}, "requirement failed: log.roll.jitter.ms must be greater than or equal to 0"},
		{"what is kept is kept for a while", map[string]string{"log.retention.ms": "0"}, "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1"},
		{"or for ever", map[string]string{"log.retention.ms": "-2"}, ""},
		{"a cleaner thread needs memory", map[string]string{"log.cleaner.dedupe.buffer.size": "1048576"}, "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."},
		{"each of them", map[string]string{"log.cleaner.threads": "100000"}, "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."},
		{"an interval has bounds", map[string]string{"group.share.assignment.interval.ms": "100000"}, "group.share.assignment.interval.ms must be less than or equal to group.share.max.assignment.interval.ms"},
		{"a lag is within what is kept", map[string]string{"log.remote.copy.lag.ms": "2147483648"}, "Value must not exceed log.local.retention.ms (effective value: 604800000)"},
		{"a port beyond all numbers is none", map[string]string{"listeners": "PLAINTEXT://:9092,EXT://:9093,NEW://:99999999999999999999"}, "Unable to parse"},
	} {
		change := dynamicconfig.Change{Now: static, Next: dynamicconfig.Merge(static, nil, c.next), InterBroker: "PLAINTEXT"}
		got := ""
		if err := change.Check(); err != nil {
			got = err.Error()
		}
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: Check() = %q, want %q", c.rule, got, c.want)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("listeners", "PLAINTEXT://:9092,EXT://:9093", "listener.name.ext.max.connections", "0")
	f.Add("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,A:", "max.connections.per.ip.overrides", "::1:3,x")
	f.Add("log.local.retention.ms", "-1", "log.cleaner.threads", "0")
	static := dynamicconfig.Values{"listeners": "PLAINTEXT://:9092", "log.dirs": "/a"}
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		next := map[string]string{name1: value1, name2: value2}
		if dynamicconfig.CheckNames(next, true, func(string) bool { return false }) != nil {
			return
		}
		// No panic, and an answer for any values that have the right types; no change is never refused.
		merged := dynamicconfig.Merge(static, nil, next)
		_ = dynamicconfig.Change{Now: static, Next: merged}.Check()
		if err := (dynamicconfig.Change{Now: merged, Next: merged}).Check(); err != nil {
			t.Errorf("Check() of no change = %v, want none", err)
		}
	})
}
