package kafkaconfig_test

import (
	"slices"
	"testing"

	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
)

// The texts are what Kafka 4.4.0's ConfigDef said to the same values.
func TestCheckSaysWhatKafkaSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, want string }{
		{"listeners", "", "Configuration 'listeners' must not be empty. Valid values include: any non-empty value"},
		{"listeners", "a,a", "Configuration 'listeners' values must not be duplicated."},
		{"listeners", "a,,b", "Configuration 'listeners' values must not be empty."},
		{"process.roles", "x", "Invalid value x for configuration process.roles: String must be one of: broker, controller"},
		{"process.roles", "", "Configuration 'process.roles' must not be empty. Valid values include: [broker, controller]"},
		{"process.roles", "broker,broker", "Configuration 'process.roles' values must not be duplicated."},
		{"log.cleanup.policy", "foo,compact", "Invalid value foo for configuration log.cleanup.policy: String must be one of: compact, delete"},
		{"log.cleanup.policy", "", ""},
		{"compression.gzip.level", "11", "Invalid value 11 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"},
		{"compression.gzip.level", "-1", ""},
		{"compression.lz4.level", "99", "Invalid value 99 for configuration compression.lz4.level: Value must be no more than 17"},
		{"compression.type", "x", "Invalid value x for configuration compression.type: String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"},
		{"group.consumer.migration.policy", "x", "Invalid value x for configuration group.consumer.migration.policy: String must be one of (case insensitive): DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL"},
		{"group.consumer.migration.policy", "upgrade", ""},
		{"remote.log.metadata.manager.impl.prefix", "", "Invalid value  for configuration remote.log.metadata.manager.impl.prefix: String must be non-empty"},
		{"max.connections", "-1", "Invalid value -1 for configuration max.connections: Value must be at least 0"},
		{"max.connections", "abc", "Invalid value abc for configuration max.connections: Not a number of type INT"},
		{"max.connections", "99999999999", "Invalid value 99999999999 for configuration max.connections: Not a number of type INT"},
		{"max.connections", "", "Invalid value  for configuration max.connections: Not a number of type INT"},
		{"offsets.topic.replication.factor", "70000", "Invalid value 70000 for configuration offsets.topic.replication.factor: Not a number of type SHORT"},
		{"auto.create.topics.enable", "yes", "Invalid value yes for configuration auto.create.topics.enable: Expected value to be either true or false"},
		{"auto.create.topics.enable", " TRUE", ""},
		{"log.cleaner.min.cleanable.ratio", "x", "Invalid value x for configuration log.cleaner.min.cleanable.ratio: Not a number of type DOUBLE"},
		{"sasl.enabled.mechanisms", "", ""},
		{"ssl.client.auth", "REQUIRED", "Invalid value REQUIRED for configuration ssl.client.auth: String must be one of: required, requested, none"},
		{"num.network.threads", " 5 ", ""},
		{"num.network.threads", " -7 ", "Invalid value -7 for configuration num.network.threads: Value must be at least 1"},
		{"num.network.threads", " x ", "Invalid value  x  for configuration num.network.threads: Not a number of type INT"},
		{"log.cleaner.min.cleanable.ratio", "-2", "Invalid value -2.0 for configuration log.cleaner.min.cleanable.ratio: Value must be at least 0"},
		{"log.cleaner.min.cleanable.ratio", "2147483648", "Invalid value 2.147483648E9 for configuration log.cleaner.min.cleanable.ratio: Value must be no more than 1"},
		{"log.cleaner.min.cleanable.ratio", "9223372036854775808", "Invalid value 9.223372036854776E18 for configuration log.cleaner.min.cleanable.ratio: Value must be no more than 1"},
		{"ssl.client.auth", " 7 ", "Invalid value 7 for configuration ssl.client.auth: String must be one of: required, requested, none"},
		{"ssl.client.auth", " none ", ""},
		{"num.network.threads", "5.0", "Invalid value 5.0 for configuration num.network.threads: Not a number of type INT"},
	} {
		row, ok := kafkaconfig.Lookup(c.name)
		if !ok {
			t.Errorf("Lookup(%q) finds nothing", c.name)
			continue
		}
		got := ""
		if err := row.Check(c.value); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s.Check(%q) = %q, want %q", c.name, c.value, got, c.want)
		}
	}
}

func TestEveryDefaultIsValid(t *testing.T) {
	t.Parallel()
	n := 0
	for c := range kafkaconfig.All() {
		n++
		if c.Default == nil {
			continue
		}
		if err := c.Check(*c.Default); err != nil && !slices.Contains([]string{"controller.quorum.bootstrap.servers", "controller.quorum.voters"}, c.Name) {
			t.Errorf("default of %s: %v", c.Name, err)
		}
	}
	if n != 385 { // three are none of Kafka 4.4.0's
		t.Errorf("All lists %d configs, want 385", n)
	}
}

func TestResolveTakesPrefixesOff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		key, name, listener, mechanism string
		ok                             bool
	}{
		{"num.io.threads", "num.io.threads", "", "", true},
		{"listener.name.external.ssl.keystore.location", "ssl.keystore.location", "external", "", true},
		{"listener.name.external.sasl.enabled.mechanisms", "sasl.enabled.mechanisms", "external", "", true},
		{"listener.name.external.scram-sha-256.sasl.jaas.config", "sasl.jaas.config", "external", "scram-sha-256", true},
		{"listener.name.external.plain.connections.max.reauth.ms", "connections.max.reauth.ms", "external", "plain", true},
		{"listener.name.external.connections.max.idle.ms", "connections.max.idle.ms", "external", "", false},
		{"listener.name.external.plain.ssl.client.auth", "ssl.client.auth", "external", "plain", false},
		{"listener.name.external", "", "", "", false},
		{"listener.name..ssl.client.auth", "", "", "", false},
		{"nonsense", "", "", "", false},
	} {
		r, ok := kafkaconfig.Resolve(c.key)
		if ok != c.ok || r.Name != c.name || r.Listener != c.listener || r.Mechanism != c.mechanism {
			t.Errorf("Resolve(%q) = %q %q %q %v, want %q %q %q %v", c.key, r.Name, r.Listener, r.Mechanism, ok, c.name, c.listener, c.mechanism, c.ok)
		}
	}
}

func TestModesAreThoseOfKafka(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]kafkaconfig.Mode{
		"node.id": kafkaconfig.ReadOnly, "max.connections": kafkaconfig.ClusterWide, "ssl.keystore.location": kafkaconfig.PerBroker,
		"num.network.threads": kafkaconfig.ClusterWide, "listeners": kafkaconfig.PerBroker, "ssl.allow.dn.changes": kafkaconfig.ReadOnly,
	} {
		if c, _ := kafkaconfig.Lookup(name); c.Mode != want {
			t.Errorf("mode of %s = %q, want %q", name, c.Mode, want)
		}
	}
	for _, name := range []string{"ssl.keystore.password", "sasl.jaas.config", "ssl.keystore.key"} {
		if c, _ := kafkaconfig.Lookup(name); !c.Sensitive() {
			t.Errorf("%s is not sensitive", name)
		}
	}
}

func TestValuesArePrintedAsJavaReadThem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, want string }{
		{"log.cleaner.io.max.bytes.per.second", "1e6", "1000000.0"},
		{"log.cleaner.io.max.bytes.per.second", "12345678", "1.2345678E7"},
		{"log.cleaner.min.cleanable.ratio", " .5 ", "0.5"},
		{"log.cleaner.min.cleanable.ratio", "0.0001", "1.0E-4"},
		{"num.io.threads", " 8 ", "8"},
		{"auto.create.topics.enable", "TRUE", "true"},
		{"log.cleanup.policy", "compact , delete", "compact,delete"},
	} {
		row, _ := kafkaconfig.Lookup(c.name)
		if got := row.Canonical(c.value); got != c.want {
			t.Errorf("%s.Canonical(%q) = %q, want %q", c.name, c.value, got, c.want)
		}
	}
	for _, row := range kafkaconfig.Topic() {
		if row.Name == "cleanup.policy" && row.Canonical("delete, delete,compact") != "delete,compact" {
			t.Errorf("cleanup.policy.Canonical = %q, want each entry once", row.Canonical("delete, delete,compact"))
		}
	}
}
