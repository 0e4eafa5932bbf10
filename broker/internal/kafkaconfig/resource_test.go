package kafkaconfig_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
)

func TestConfigsOfTopicsAndGroupsFallBackToKnownOnes(t *testing.T) {
	t.Parallel()
	// What Kafka's ConfigDef of brokers does not have: groups' own configs, and lists that brokers keep as strings.
	own := func(name string) bool {
		return strings.HasPrefix(name, "errors.deadletterqueue.") || strings.HasPrefix(name, "share.") || name == "max.decompressed.message.bytes"
	}
	for kind, rows := range map[string][]kafkaconfig.ResourceConfig{"topic": kafkaconfig.Topic(), "group": kafkaconfig.Group()} {
		if len(rows) < 20 {
			t.Errorf("%d %s configs, want more than 20", len(rows), kind)
		}
		if !slices.IsSortedFunc(rows, func(a, b kafkaconfig.ResourceConfig) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%s configs are not in order of name", kind)
		}
		for _, row := range rows {
			known, ok := kafkaconfig.Lookup(row.Synonym)
			switch {
			case row.Synonym == "", own(row.Synonym):
			case !ok:
				t.Errorf("%s config %s falls back to %s, which is none of the broker's", kind, row.Name, row.Synonym)
			case known.Default != nil && row.Default != nil && *known.Default != *row.Default:
				t.Errorf("%s config %s has default %s, its synonym %s", kind, row.Name, *row.Default, *known.Default)
			}
		}
	}
}

// The texts are what Kafka 4.4.0's controller said to the same values of a topic or a group.
func TestConfigsOfTopicsAndGroupsAreCheckedAsKafkaChecksThem(t *testing.T) {
	t.Parallel()
	throttled := func(list string) string {
		const name = "leader.replication.throttled.replicas"
		return "Invalid value [" + list + "] for configuration " + name + ": " + name +
			" must be the literal '*' or a list of replicas in the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."
	}
	reset := func(value string) string {
		return "Invalid value " + value + " for configuration share.auto.offset.reset: Invalid value `" + value +
			"` for configuration share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
	}
	for _, c := range []struct{ name, value, want string }{
		{"cleanup.policy", "", ""},
		{"cleanup.policy", "delete,delete", ""},
		{"cleanup.policy", ",", "Configuration 'cleanup.policy' values must not be empty."},
		{"cleanup.policy", "delete,a", "Invalid value a for configuration cleanup.policy: String must be one of: compact, delete"},
		{"compression.gzip.level", "0", "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1"},
		{"max.message.bytes", "2147483648", "Invalid value 2147483648 for configuration max.message.bytes: Not a number of type INT"},
		{"segment.bytes", " 7 ", "Invalid value 7 for configuration segment.bytes: Value must be at least 1048576"},
		{"preallocate", "TRUE", ""},
		{"preallocate", "a", "Invalid value a for configuration preallocate: Expected value to be either true or false"},
		{"min.cleanable.dirty.ratio", "1.5", "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"},
		{"remote.copy.lag.ms", "-2", "Invalid value -2 for configuration remote.copy.lag.ms: Value must be at least -1"},
		{"leader.replication.throttled.replicas", "*", ""},
		{"leader.replication.throttled.replicas", "0:1,2:3", ""},
		{"leader.replication.throttled.replicas", ",", ""},
		{"leader.replication.throttled.replicas", "a, b", throttled("a, b")},
		{"share.auto.offset.reset", "earliest", ""},
		{"share.auto.offset.reset", "by_duration:PT1.5S", ""},
		{"share.auto.offset.reset", "by_duration:PT0S", ""},
		{"share.auto.offset.reset", "EARLIEST", reset("EARLIEST")},
		{"share.auto.offset.reset", "by_duration:P", reset("by_duration:P")},
		{"share.auto.offset.reset", "by_duration:P-1D", reset("by_duration:P-1D")},
		{"share.auto.offset.reset", "by_duration:-PT1S", reset("by_duration:-PT1S")},
		{"share.isolation.level", " read_committed ", ""},
		{"share.partition.max.record.locks", "7", "Invalid value 7 for configuration share.partition.max.record.locks: Value must be at least 100"},
		{"streams.heartbeat.interval.ms", "", "Invalid value  for configuration streams.heartbeat.interval.ms: Not a number of type INT"},
	} {
		rows := append(kafkaconfig.Topic(), kafkaconfig.Group()...)
		at := slices.IndexFunc(rows, func(r kafkaconfig.ResourceConfig) bool { return r.Name == c.name })
		if at < 0 {
			t.Errorf("%s is no config", c.name)
			continue
		}
		got := ""
		if err := rows[at].Check(c.value); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s.Check(%q) = %q, want %q", c.name, c.value, got, c.want)
		}
	}
}
