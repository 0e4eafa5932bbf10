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
