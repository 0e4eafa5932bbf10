package api

import (
	"slices"

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
// names of its own where they come from the broker. described is what it said. names, unless nil, are
// the only ones asked for.
func (r resourceConfigs) describe(described []kmsg.DescribeConfigsResponseResourceConfig, names []string, synonyms, documentation bool) []kmsg.DescribeConfigsResponseResourceConfig {
	said := make(map[string]*kmsg.DescribeConfigsResponseResourceConfig, len(described))
	for i := range described {
		said[described[i].Name] = &described[i]
	}
	out := make([]kmsg.DescribeConfigsResponseResourceConfig, 0, len(r.rows))
	for _, row := range r.rows {
		c := r.entry(row, said[row.Name])
		delete(said, row.Name)
		if names != nil && !slices.Contains(names, row.Name) {
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
		c.Value, c.Source, c.ConfigSynonyms = said.Value, r.own, append([]kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{own}, c.ConfigSynonyms...)
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
