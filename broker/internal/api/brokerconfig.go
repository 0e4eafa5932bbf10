package api

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/engine"
	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// threadsConfig is the one config without a prefix that is put to work while the broker runs.
const threadsConfig = "num.io.threads"

// Properties is how broker configs are described and altered.
type Properties struct {
	// Static holds every property as it was given at the start.
	Static map[string]string
	// Stores prepares a listener's key and trust stores with dynamic configs (without the listener
	// prefix) on top of the static ones; commit puts them to work. Stores are read anew each time.
	Stores func(listener string, dynamic map[string]string) (commit func(), err error)
}

// brokerConfigs is what a broker's configs are at one moment.
type brokerConfigs struct {
	static      map[string]string
	perBroker   map[string]string // dynamic, of this broker
	clusterWide map[string]string // dynamic, of all brokers
}

func (s *Server) brokerConfigs() *brokerConfigs {
	image := s.o.Metadata.Image()
	return &brokerConfigs{
		static:      s.o.Properties.Static,
		perBroker:   image.Configs(metadata.Resource{Type: metadata.ResourceBroker, Name: strconv.Itoa(int(s.o.NodeID))}),
		clusterWide: image.Configs(metadata.Resource{Type: metadata.ResourceBroker}),
	}
}

// dynamic is the dynamic value in force; ok is false when there is none.
func (b *brokerConfigs) dynamic(name string) (value string, ok bool) {
	if value, ok = b.perBroker[name]; ok {
		return value, true
	}
	value, ok = b.clusterWide[name]
	return value, ok
}

// synonymNames lists the configs that stand in for name, the strongest first.
func synonymNames(name string) []string {
	switch name {
	case "log.retention.ms":
		return []string{name, "log.retention.minutes", "log.retention.hours"}
	case "log.retention.minutes":
		return []string{name, "log.retention.hours"}
	case "log.roll.ms":
		return []string{name, "log.roll.hours"}
	case "log.roll.jitter.ms":
		return []string{name, "log.roll.jitter.hours"}
	case "log.flush.interval.ms":
		return []string{name, "log.flush.scheduler.interval.ms"}
	}
	if _, rest, ok := kafkaconfig.SplitListener(name); ok {
		return []string{name, rest}
	}
	return []string{name}
}

// synonyms lists where a value could come from, in Kafka's order; the first is where it does.
func (b *brokerConfigs) synonyms(name string, sensitive bool) []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	var out []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym
	add := func(from map[string]string, source kmsg.ConfigSource) {
		for _, n := range synonymNames(name) {
			v, set := from[n]
			if !set {
				continue
			}
			s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
			s.Name, s.Source = n, source
			if !sensitive {
				s.Value = &v
			}
			out = append(out, s)
		}
	}
	add(b.perBroker, kmsg.ConfigSourceDynamicBrokerConfig)
	add(b.clusterWide, kmsg.ConfigSourceDynamicDefaultBrokerConfig)
	add(b.static, kmsg.ConfigSourceStaticBrokerConfig)
	if c, ok := kafkaconfig.Resolve(name); ok && c.Default != nil { // not that of a weaker unit
		s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		s.Name, s.Source = c.Name, kmsg.ConfigSourceDefaultConfig
		if !sensitive {
			s.Value = c.Default
		}
		out = append(out, s)
	}
	return out
}

// describe lists the configs of one resource: all of this broker's, or those that are set
// dynamically for every broker (an empty name).
func (b *brokerConfigs) describe(r *kmsg.DescribeConfigsRequestResource, synonyms, documentation bool) []kmsg.DescribeConfigsResponseResourceConfig {
	names := map[string]bool{}
	note := func(m map[string]string) {
		for name := range m {
			names[name] = true
		}
	}
	note(b.clusterWide)
	if r.ResourceName != "" {
		note(b.perBroker)
		note(b.static)
		for c := range kafkaconfig.All() {
			if !c.Internal && !c.OnlyDynamic {
				names[c.Name] = true
			}
		}
	}
	if r.ConfigNames != nil {
		for name := range names {
			if !slices.Contains(r.ConfigNames, name) {
				delete(names, name)
			}
		}
	}
	out := make([]kmsg.DescribeConfigsResponseResourceConfig, 0, len(names))
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, b.entry(name, r.ResourceName != "", synonyms, documentation))
	}
	return out
}

func (b *brokerConfigs) entry(name string, perBroker, synonyms, documentation bool) kmsg.DescribeConfigsResponseResourceConfig {
	known, ok := kafkaconfig.Resolve(name)
	out := kmsg.NewDescribeConfigsResponseResourceConfig()
	out.Name = name
	out.IsSensitive = !ok || known.Sensitive()
	all := b.synonyms(name, out.IsSensitive)
	if !perBroker {
		all = slices.DeleteFunc(all, func(s kmsg.DescribeConfigsResponseResourceConfigConfigSynonym) bool {
			return s.Source != kmsg.ConfigSourceDynamicDefaultBrokerConfig
		})
	}
	out.Source = kmsg.ConfigSourceDefaultConfig
	if len(all) > 0 {
		out.Source = all[0].Source
		// A value comes from its own name, not from a weaker unit of it: log.retention.hours=168 is not
		// log.retention.ms=168.
		if own := all[0]; own.Name == name || strings.HasPrefix(name, "listener.name.") {
			out.Value = own.Value
		}
	}
	out.IsDefault = out.Source == kmsg.ConfigSourceDefaultConfig
	_, dynamic := kafkaconfig.Lookup(name)
	out.ReadOnly = !dynamic || known.Mode == kafkaconfig.ReadOnly
	if synonyms {
		out.ConfigSynonyms = all
	}
	if ok {
		out.ConfigType = configType(known.Type)
	}
	if documentation && ok {
		out.Documentation = &known.Doc
	}
	return out
}

func configType(t kafkaconfig.Type) kmsg.ConfigType {
	return map[kafkaconfig.Type]kmsg.ConfigType{
		kafkaconfig.Boolean: kmsg.ConfigTypeBoolean, kafkaconfig.String: kmsg.ConfigTypeString, kafkaconfig.Int: kmsg.ConfigTypeInt,
		kafkaconfig.Short: kmsg.ConfigTypeShort, kafkaconfig.Long: kmsg.ConfigTypeLong, kafkaconfig.Double: kmsg.ConfigTypeDouble,
		kafkaconfig.List: kmsg.ConfigTypeList, kafkaconfig.Class: kmsg.ConfigTypeClass, kafkaconfig.Password: kmsg.ConfigTypePassword,
	}[t]
}

// applicableName tells whether a change of a config that Kafka alters while it runs can be accepted:
// because it is applied, or because it decides nothing here. What decides who gets in, or how, must
// not be accepted and then not obeyed.
func applicableName(c kafkaconfig.Resolved) bool {
	switch {
	case c.Name == threadsConfig:
		return true
	case c.Security: // key and trust stores, of a listener
		return true
	case strings.HasPrefix(c.Name, "ssl."), strings.HasPrefix(c.Name, "sasl."), strings.HasPrefix(c.Name, "max.connection"):
		return false
	}
	if slices.Contains(engine.Obeys(), c.Name) || slices.Contains(engine.Obeys(), strongest(c.Name)) {
		return false // the data plane reads it once
	}
	switch c.Name {
	case "listeners", "advertised.listeners", "listener.security.protocol.map", "num.network.threads", "principal.builder.class",
		"connections.max.reauth.ms":
		return false
	}
	return true
}

// strongest is the config that name stands in for: log.retention.hours for log.retention.ms.
func strongest(name string) string {
	for _, s := range []string{"log.retention.ms", "log.roll.ms"} {
		if slices.Contains(synonymNames(s), name) {
			return s
		}
	}
	return name
}

// alterations makes changes of broker configs one after another, so that what is applied last is
// what is stored last.
func (s *Server) alterations(change func() error) error {
	s.altering.Lock()
	defer s.altering.Unlock()
	return change()
}

// applicable checks what the broker's dynamic configs are to become, and returns how to put them to
// work. Nothing is changed before that is called.
func (s *Server) applicable(now, next *brokerConfigs) (apply func(), err error) {
	var steps []func()
	step, err := s.applicableWorkers(now, next)
	if err != nil {
		return nil, err
	}
	if step != nil {
		steps = append(steps, step)
	}
	for name := range s.o.Listener {
		was, stores := now.stores(name), next.stores(name)
		if len(was) == 0 && len(stores) == 0 || s.o.Properties.Stores == nil {
			continue // even the same value counts: the file may be another
		}
		commit, err := s.o.Properties.Stores(name, stores)
		if err != nil {
			return nil, invalidRequest("Invalid value org.apache.kafka.common.config.ConfigException: %s for configuration Invalid dynamic configuration", err)
		}
		steps = append(steps, commit)
	}
	return func() {
		for _, step := range steps {
			step()
		}
	}, nil
}

// stores are the dynamic configs of a listener's key and trust store, without the prefix.
func (b *brokerConfigs) stores(listener string) map[string]string {
	prefix := "listener.name." + strings.ToLower(listener) + "."
	found := map[string]string{}
	for key, value := range b.perBroker {
		rest, ok := strings.CutPrefix(key, prefix)
		if known, resolved := kafkaconfig.Resolve(key); ok && resolved && known.Security {
			found[rest] = value
		}
	}
	return found
}

// applicableWorkers checks num.io.threads, which may at most double or halve.
func (s *Server) applicableWorkers(now, next *brokerConfigs) (step func(), err error) {
	const name = threadsConfig
	was, _ := now.dynamic(name)
	value, set := next.dynamic(name)
	if was == value {
		return nil, nil
	}
	workers := max(s.o.Workers, 1)
	if set {
		if workers, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
			return nil, invalidRequest("Invalid value %s for configuration %s: Not a number of type INT", value, name)
		}
	}
	_, _, running := s.pool.load()
	refused := ""
	switch {
	case workers > 2*running:
		refused = fmt.Sprintf("value should not be greater than double the current value %d", running)
	case workers < running/2:
		refused = fmt.Sprintf("value should be at least half the current value %d", running)
	}
	if set && refused != "" {
		return nil, invalidRequest("Invalid value org.apache.kafka.common.config.ConfigException: Dynamic thread count update validation failed for %s=%d: %s for configuration Invalid dynamic configuration", name, workers, refused)
	}
	return func() { s.pool.resize(workers) }, nil
}

// applyStored puts the dynamic configs to work that an earlier run has stored. One that no longer
// works is logged and left.
func (s *Server) applyStored() {
	stored := s.brokerConfigs()
	if value, ok := stored.dynamic(threadsConfig); ok {
		if workers, err := strconv.Atoi(strings.TrimSpace(value)); err == nil && workers > 0 {
			s.pool.resize(workers)
		}
	}
	for name := range s.o.Listener {
		stores := stored.stores(name)
		if len(stores) == 0 || s.o.Properties.Stores == nil {
			continue
		}
		commit, err := s.o.Properties.Stores(name, stores)
		if err != nil {
			s.o.Log.Error("dynamic key or trust store cannot be used; the one of the properties file is", slog.String("listener", name), slog.Any("error", err))
			continue
		}
		commit()
	}
}
