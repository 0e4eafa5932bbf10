package api

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
)

// resourceConfigs is what the configs of one kind of resource, topics or groups, are described by.
type resourceConfigs struct {
	rows   []kafkaconfig.ResourceConfig
	own    kmsg.ConfigSource // of a value that the resource has itself
	broker *brokerConfigs
}

func (s *Server) topicConfigs() resourceConfigs {
	return resourceConfigs{kafkaconfig.Topic(), kmsg.ConfigSourceDynamicTopicConfig, s.brokerConfigs()}
}

func (s *Server) groupConfigs() resourceConfigs {
	return resourceConfigs{kafkaconfig.Group(), kmsg.ConfigSourceGroupConfig, s.brokerConfigs()}
}

// dataPlaneDefault is the default that the data plane has instead of Kafka's; nil where it is Kafka's.
func dataPlaneDefault(name string) *string {
	if name == "segment.bytes" {
		return new("104857600")
	}
	return nil
}

// describe lists all that Kafka would: the data plane names only the configs that it acts on, by
// names of its own where they come from the broker. described is what it said. names, unless there
// are none, are the only ones asked for.
func (r resourceConfigs) describe(described []kmsg.DescribeConfigsResponseResourceConfig, names []string, synonyms, documentation bool) []kmsg.DescribeConfigsResponseResourceConfig {
	said := make(map[string]*kmsg.DescribeConfigsResponseResourceConfig, len(described))
	for i := range described {
		said[described[i].Name] = &described[i]
	}
	out := make([]kmsg.DescribeConfigsResponseResourceConfig, 0, len(r.rows))
	for _, row := range r.rows {
		c := r.entry(row, said[row.Name])
		delete(said, row.Name)
		if len(names) > 0 && !slices.Contains(names, row.Name) {
			continue
		}
		if !synonyms {
			c.ConfigSynonyms = nil
		}
		if documentation && row.Doc != "" {
			c.Documentation = &row.Doc
		}
		out = append(out, c)
	}
	for i := range described { // what Kafka does not have, where it was set
		if c := described[i]; said[c.Name] != nil && c.Source == r.own {
			c.ReadOnly = false
			completeSynonyms(&c, synonyms)
			out = append(out, c)
		}
	}
	return out
}

// entry describes one config. said is what the data plane said of it; nil for nothing.
func (r resourceConfigs) entry(row kafkaconfig.ResourceConfig, said *kmsg.DescribeConfigsResponseResourceConfig) kmsg.DescribeConfigsResponseResourceConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.ConfigType, c.Source, c.Value = row.Name, configType(row.Type), kmsg.ConfigSourceDefaultConfig, row.Default
	c.ConfigSynonyms = r.broker.fallbacks(row)
	if d := dataPlaneDefault(row.Name); d != nil {
		c.Value = d
		if last := len(c.ConfigSynonyms) - 1; last >= 0 && c.ConfigSynonyms[last].Source == kmsg.ConfigSourceDefaultConfig {
			c.ConfigSynonyms[last].Value = d
		}
	}
	if len(c.ConfigSynonyms) > 0 {
		c.Source = c.ConfigSynonyms[0].Source
		if c.ConfigSynonyms[0].Name == row.Synonym { // else it is in another unit
			c.Value = c.ConfigSynonyms[0].Value
		}
	}
	switch {
	case said == nil:
	case said.Source == r.own:
		own := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		own.Name, own.Value, own.Source = row.Name, said.Value, r.own
		if said.Value != nil { // as it was read
			own.Value = new(row.Canonical(*said.Value))
		}
		c.Value, c.Source, c.ConfigSynonyms = own.Value, r.own, append([]kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{own}, c.ConfigSynonyms...)
	case said.Value != nil: // the value in force, whatever it is called
		c.Value = said.Value
	}
	c.IsDefault = c.Source == kmsg.ConfigSourceDefaultConfig
	return c
}

// fallbacks are the broker's values of a resource's config, the strongest first.
func (b *brokerConfigs) fallbacks(row kafkaconfig.ResourceConfig) []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	if row.Synonym == "" {
		return nil
	}
	out := b.synonyms(row.Synonym, false)
	if _, known := kafkaconfig.Lookup(row.Synonym); !known {
		s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		s.Name, s.Source, s.Value = row.Synonym, kmsg.ConfigSourceDefaultConfig, row.Default
		out = append(out, s)
	}
	return out
}

// checkGroup says, in Kafka's words, what the broker's configs do not let a group have; "" for nothing. Values that cannot be read
// are the data plane's to refuse, which it does first.
func (b *brokerConfigs) checkGroup(configs []changedConfig) string {
	rows := kafkaconfig.Group()
	values := map[string]string{}
	for _, c := range configs {
		at := slices.IndexFunc(rows, func(r kafkaconfig.ResourceConfig) bool { return r.Name == c.name })
		if c.op != kmsg.IncrementalAlterConfigOpSet || c.value == nil {
			continue
		}
		if at < 0 || rows[at].Check(*c.value) != nil {
			return ""
		}
		values[c.name] = strings.TrimSpace(*c.value)
	}
	all := b.whole()
	for _, row := range rows {
		value, set := values[row.Name]
		if !set {
			continue
		}
		kind, rest, _ := strings.Cut(row.Name, ".")
		least, most := "group."+kind+".min."+rest, "group."+kind+".max."+rest
		_, bounded := kafkaconfig.Lookup(most)
		n, _ := strconv.ParseInt(value, 10, 64) // checked above
		switch {
		case bounded && (n < all.Int(least) || n > all.Int(most)):
			return fmt.Sprintf("%s must be in the range %d to %d inclusive.", row.Name, all.Int(least), all.Int(most))
		case row.Name == "streams.num.standby.replicas" && n > all.Int("group.streams.max.standby.replicas"):
			return fmt.Sprintf("%s must be less than or equal to %d", row.Name, all.Int("group.streams.max.standby.replicas"))
		case row.Name == "streams.assignor.name" && !slices.Contains(kafkaconfig.SplitList(all.Get(row.Synonym)), value):
			return fmt.Sprintf("%s '%s' is not a registered task assignor. Registered assignors are: [%s].", row.Name, value, strings.Join(kafkaconfig.SplitList(all.Get(row.Synonym)), ", "))
		case row.Name == "streams.rack.aware.assignment.tags":
			tags := kafkaconfig.SplitList(value)
			if len(slices.Compact(slices.Sorted(slices.Values(tags)))) != len(tags) {
				return row.Name + " must not contain duplicate tag keys."
			}
		}
	}
	return ""
}
