package api

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/dynamicconfig"
	"github.com/brokerlab/brokerlab/broker/internal/engine"
	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// Properties is how broker configs are described and altered.
type Properties struct {
	// Static holds every property as it was given at the start.
	Static map[string]string
	// InterBroker is the listener for other brokers.
	InterBroker string
	// Fixed tells of properties that Kafka does not have and that cannot be altered.
	Fixed func(name string) bool
	// Prepare checks what only the broker's parts can know, and takes what the alteration needs: the ports
	// of new listeners, the key stores that they and others are to have. Nil: nothing is put to work.
	Prepare func(Alteration) (Prepared, error)
}

// Alteration is a change of the dynamic configs that are in force, the broker's own over those of all.
type Alteration struct {
	Now, Next map[string]string
	// Named are the configs that were set, also to the value that they had: a key store may be another.
	Named map[string]bool

	stored *brokerConfigs // by level; nil for what is not
}

// Unapplied is what Kafka writes into its log when a config that it has stored cannot be put to work: with it the level,
// and all configs of that.
func (a Alteration) Unapplied(name string) string {
	if a.stored == nil {
		return "Configs could not be applied: [" + name + "]"
	}
	if _, own := a.stored.perBroker[name]; own {
		return fmt.Sprintf("Per-broker configs of %s could not be applied: %s", a.stored.node, dynamicconfig.JavaSet(slices.Collect(maps.Keys(a.stored.perBroker))))
	}
	return "Cluster default configs could not be applied: " + dynamicconfig.JavaSet(slices.Collect(maps.Keys(a.stored.clusterWide)))
}

// Prepared is an alteration that nothing stands in the way of. Exactly one of its two is called.
type Prepared struct {
	// Commit puts it to work. Connections that it ends are ended by finish, when whoever asked has the
	// answer.
	Commit func() (finish func())
	// Discard gives back what was taken.
	Discard func()
}

// brokerConfigs is what a broker's configs are at one moment.
type brokerConfigs struct {
	node        string // the broker's id
	static      map[string]string
	perBroker   map[string]string // dynamic, of this broker
	clusterWide map[string]string // dynamic, of all brokers
}

func (s *Server) brokerConfigs() *brokerConfigs {
	image, node := s.o.Metadata.Image(), strconv.Itoa(int(s.o.NodeID))
	return &brokerConfigs{
		node:        node,
		static:      s.static,
		perBroker:   image.Configs(metadata.Resource{Type: metadata.ResourceBroker, Name: node}),
		clusterWide: image.Configs(metadata.Resource{Type: metadata.ResourceBroker}),
	}
}

// synonyms lists where a value could come from, in Kafka's order; the first is where it does.
func (b *brokerConfigs) synonyms(name string, sensitive bool) []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym {
	var out []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym
	add := func(from map[string]string, source kmsg.ConfigSource) {
		for _, n := range dynamicconfig.Synonyms(name) {
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
	for _, n := range dynamicconfig.Synonyms(name) {
		c, ok := kafkaconfig.Lookup(n)
		if !ok || c.Default == nil {
			continue
		}
		s := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
		s.Name, s.Source = n, kmsg.ConfigSourceDefaultConfig
		if !sensitive {
			s.Value = c.Default
		}
		out = append(out, s)
	}
	// Kafka begins with the config itself: log.retention.ms above log.retention.hours is none of the latter's.
	own := slices.IndexFunc(out, func(s kmsg.DescribeConfigsResponseResourceConfigConfigSynonym) bool { return s.Name == name })
	if own < 0 {
		return nil
	}
	return out[own:]
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
	if len(r.ConfigNames) > 0 {
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
	if listener, rest, prefixed := kafkaconfig.SplitListener(name); !ok && prefixed {
		known.Listener = listener
		known.Config, ok = kafkaconfig.Lookup(rest) // it is kept, and no listener looks at it
	}
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
		out.Source, out.Value = all[0].Source, all[0].Value
	}
	if perBroker && ok && known.Listener == "" && !out.IsSensitive {
		out.Value = b.valueInForce(known.Config)
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
	if documentation && ok && known.Listener == "" { // Kafka looks it up by the whole name
		out.Documentation = &known.Doc
	}
	return out
}

// valueInForce is a config's value as Kafka prints it: what was read of it, and null for an absent one. A
// stronger unit hides a weaker one even there: under log.retention.ms log.retention.hours has its default.
func (b *brokerConfigs) valueInForce(c kafkaconfig.Config) *string {
	value, given := b.whole()[c.Name]
	if !given {
		return c.Default
	}
	value = c.Canonical(value)
	return &value
}

func configType(t kafkaconfig.Type) kmsg.ConfigType {
	return map[kafkaconfig.Type]kmsg.ConfigType{
		kafkaconfig.Boolean: kmsg.ConfigTypeBoolean, kafkaconfig.String: kmsg.ConfigTypeString, kafkaconfig.Int: kmsg.ConfigTypeInt,
		kafkaconfig.Short: kmsg.ConfigTypeShort, kafkaconfig.Long: kmsg.ConfigTypeLong, kafkaconfig.Double: kmsg.ConfigTypeDouble,
		kafkaconfig.List: kmsg.ConfigTypeList, kafkaconfig.Class: kmsg.ConfigTypeClass, kafkaconfig.Password: kmsg.ConfigTypePassword,
	}[t]
}

// inForce is the dynamic values, the broker's own over those of all.
func (b *brokerConfigs) inForce() map[string]string {
	return dynamicconfig.Merge(nil, b.clusterWide, b.perBroker)
}

// whole is every value that was given, dynamic ones over static ones.
func (b *brokerConfigs) whole() dynamicconfig.Values {
	return dynamicconfig.Merge(b.static, b.clusterWide, b.perBroker)
}

// Config is the value in force of a broker config, as listener (upper case) sees it when that is not "": what is
// dynamic over what is static, a listener's own over that of all; else Kafka's default.
func (s *Server) Config(listener, name string) string {
	if listener == "" {
		return s.brokerConfigs().whole().Get(name)
	}
	return s.brokerConfigs().whole().Of(listener, name)
}

// prepare checks what the broker's configs are to become and takes what that needs. Nothing is changed before
// Commit.
func (s *Server) prepare(now, next *brokerConfigs, named map[string]bool) (Prepared, error) {
	change := dynamicconfig.Change{Now: now.whole(), Next: next.whole(), InterBroker: s.o.Properties.InterBroker}
	if err := change.Check(); err != nil {
		return Prepared{}, invalidRequest("%s", err)
	}
	plane, err := dataPlaneConfigs(change.Next)
	if err != nil {
		return Prepared{}, invalidRequest("%s", dynamicconfig.Inapplicable(err.Error()))
	}
	parts := Prepared{Commit: func() func() { return func() {} }, Discard: func() {}}
	if s.o.Properties.Prepare != nil {
		if parts, err = s.o.Properties.Prepare(Alteration{now.inForce(), next.inForce(), named, next}); err != nil {
			return Prepared{}, invalidRequest("%s", dynamicconfig.Inapplicable(err.Error()))
		}
	}
	workers := int(change.Next.Int(threadsConfig))
	return Prepared{
		Commit: func() func() {
			if change.Now.Int(threadsConfig) != change.Next.Int(threadsConfig) {
				s.pool.resize(max(workers, 1))
			}
			s.commitDataPlane(change.Now, plane)
			return parts.Commit()
		},
		Discard: parts.Discard,
	}, nil
}

// ReloadStores has a listener (upper case) load its key and trust stores anew, as if they had been set again.
func (s *Server) ReloadStores(listener string) error {
	if s.o.Properties.Prepare == nil {
		return nil
	}
	s.altering.Lock()
	defer s.altering.Unlock()
	inForce := s.brokerConfigs().inForce()
	named := map[string]bool{dynamicconfig.Prefix(listener) + "ssl.keystore.location": true}
	prepared, err := s.o.Properties.Prepare(Alteration{Now: inForce, Next: inForce, Named: named})
	if err != nil {
		return err
	}
	prepared.Commit()()
	return nil
}

const threadsConfig = "num.io.threads"

// dataPlaneConfigs are the given values that the data plane obeys.
func dataPlaneConfigs(values dynamicconfig.Values) (map[string]string, error) {
	obeyed := map[string]string{}
	for _, name := range engine.Obeys() {
		if v, ok := values[name]; ok {
			obeyed[name] = v
		}
	}
	if err := engine.CheckBrokerConfigs(obeyed); err != nil {
		return nil, fmt.Errorf("the data plane: %w", err)
	}
	return obeyed, nil
}

// commitDataPlane tells the data plane its configs, if they are others than before.
func (s *Server) commitDataPlane(before dynamicconfig.Values, obeyed map[string]string) {
	if was, err := dataPlaneConfigs(before); err == nil && maps.Equal(was, obeyed) || s.o.Engine.Remote() {
		return // one somewhere else has configs of its own
	}
	if err := s.o.Engine.SetBrokerConfigs(s.ctx, obeyed); err != nil {
		s.o.Log.Error("the data plane keeps its former configs until a restart", slog.Any("error", err))
	}
}

// applyStored puts the dynamic configs to work that an earlier run has stored, before anybody is served. What no
// longer works is logged and left.
func (s *Server) applyStored() {
	stored := s.brokerConfigs()
	s.inForce = stored
	if plane, err := dataPlaneConfigs(stored.whole()); err != nil {
		s.o.Log.Error("dynamic configs of the data plane cannot be used", slog.Any("error", err))
	} else if s.o.Engine.Remote() { // it has configs of its own
	} else if err := s.o.Engine.SetBrokerConfigs(s.ctx, plane); err != nil { // it may have kept others
		s.o.Log.Error("dynamic configs of the data plane cannot be used", slog.Any("error", err))
	}
	inForce := stored.inForce()
	if workers := dynamicconfig.Values(inForce).Int(threadsConfig); inForce[threadsConfig] != "" && workers > 0 {
		s.pool.resize(int(workers))
	}
	if s.o.Properties.Prepare == nil {
		return
	}
	done := map[string]string{}
	for _, group := range groups(inForce) {
		next := maps.Clone(done)
		for _, name := range group {
			next[name] = inForce[name]
		}
		prepared, err := s.o.Properties.Prepare(Alteration{Now: done, Next: next, stored: stored})
		if err != nil {
			s.o.Log.Error("dynamic configs cannot be used; what the properties file says holds", slog.Any("configs", group), slog.Any("error", err))
			continue
		}
		prepared.Commit()()
		done = next
	}
}

// groups takes configs apart into those that stand or fall together: each listener's own, then those of all
// listeners, then which listeners there are.
func groups(configs map[string]string) [][]string {
	byListener := map[string][]string{}
	var general, which []string
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		listener, _, prefixed := kafkaconfig.SplitListener(name)
		switch {
		case prefixed:
			byListener[listener] = append(byListener[listener], name)
		case name == "listeners" || name == "listener.security.protocol.map":
			which = append(which, name)
		default:
			general = append(general, name)
		}
	}
	var all [][]string
	for _, listener := range slices.Sorted(maps.Keys(byListener)) {
		all = append(all, byListener[listener])
	}
	return slices.DeleteFunc(append(all, general, which), func(g []string) bool { return len(g) == 0 })
}
