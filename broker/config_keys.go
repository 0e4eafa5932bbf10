package broker

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/brokerlab/brokerlab/broker/internal/engine"
	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
	"github.com/brokerlab/brokerlab/broker/internal/sasl"
)

// classify goes through the keys that nothing has read. Those of Kafka without
// a use here are listed; those that would change who gets in are problems; those
// that nobody knows are warnings, or problems when strict.
func (l *loading) classify(c *Config, controllers []string, strict bool) {
	var names []string
	for i := range c.Listeners {
		names = append(names, c.Listeners[i].Name)
	}
	keys := make([]string, 0, len(l.settings))
	for key := range l.settings {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		value := l.settings[key].value
		if strings.Contains(value, "${") && l.settings["config.providers"].value != "" {
			l.problem(key, "refers to a configuration provider, and those are not supported")
		}
		listener, rest, prefixed := kafkaconfig.SplitListener(key)
		if reason := refusal(rest, value); reason != "" {
			l.problem(key, "%s", reason)
			continue
		}
		known, note := useOf(key, value, rest, listener, prefixed, names, controllers)
		switch {
		case note != "":
			l.warn(key, "%s", note)
		case known == useless:
			c.Ignored = append(c.Ignored, key)
		case known == unknown && strict:
			l.problem(key, "%s", unknownText(key))
		case known == unknown:
			l.warn(key, "%s", unknownText(key))
		}
	}
}

// use is what a key is good for.
type use uint8

const (
	unknown use = iota
	useless     // Kafka's, and nothing here reads it
	used
)

// useOf judges a key. A note says why a known one has no effect as it is written.
func useOf(key, value, rest, listener string, prefixed bool, listeners, controllers []string) (kind use, note string) {
	name, mechanism := withoutMechanism(rest)
	perListener, ours := obeyed(name)
	if !prefixed {
		switch {
		case name == "sasl.jaas.config" && mechanism == "":
			return used, "has no effect: the mechanism must stand before it, as in plain.sasl.jaas.config"
		case ours, slices.Contains(engine.Obeys(), key), ofClient(key):
			return used, ""
		}
		return kafkas(key), unenforced(key, value)
	}
	upper := strings.ToUpper(listener)
	_, kafkaKnows := kafkaconfig.Resolve(key)
	_, kafkaHasName := kafkaconfig.Lookup(name)
	switch {
	case slices.Contains(controllers, upper):
		return useless, ""
	case !kafkaHasName && !ours:
		return unknown, ""
	case !slices.Contains(listeners, upper):
		return used, "has no effect: there is no listener " + upper
	case listener != strings.ToLower(listener):
		return used, "has no effect: the listener's name must be in lower case here"
	case !kafkaKnows:
		return used, fmt.Sprintf("has no effect: %s cannot be set for one listener", name)
	case name == "sasl.jaas.config" && mechanism == "":
		return used, "has no effect: the mechanism must stand before it, as in listener.name." + listener + ".plain.sasl.jaas.config"
	case ours && perListener:
		return used, ""
	}
	return useless, ""
}

// unenforced warns of a property that forbids something in Kafka, and nothing
// here.
func unenforced(name, value string) string {
	switch name {
	case "delete.topic.enable":
		if strings.EqualFold(value, "false") {
			return "has no effect: topics can be deleted"
		}
	case "create.topic.policy.class.name", "alter.config.policy.class.name":
		if value != "" {
			return "has no effect: Java classes cannot be loaded, and nothing is refused by policy"
		}
	}
	return ""
}

// withoutMechanism takes a SASL mechanism off a key.
func withoutMechanism(key string) (name, mechanism string) {
	for _, m := range append(sasl.Supported(), "GSSAPI", "OAUTHBEARER") {
		lower := strings.ToLower(m)
		name, ok := strings.CutPrefix(key, lower+".")
		if c, known := kafkaconfig.Lookup(name); ok && known && c.PerMechanism() {
			return name, lower
		}
	}
	return key, ""
}

// kafkas judges whether a key without prefix is one of Kafka's.
func kafkas(key string) use {
	if _, ok := kafkaconfig.Resolve(key); ok {
		return useless
	}
	if name, mechanism := withoutMechanism(key); mechanism != "" && name != "" {
		return useless
	}
	for _, prefix := range []string{"rsm.config.", "rlmm.config.", "config.providers.", "group.coordinator.new.", "kafka.metrics."} {
		if strings.HasPrefix(key, prefix) {
			return useless
		}
	}
	return unknown
}

// refusal says why the start is refused with a property, "" when it is not:
// those of Kafka's that would let in others than Kafka does.
func refusal(name, value string) string {
	if bare, mechanism := withoutMechanism(name); mechanism != "" {
		name = bare
	}
	switch name {
	case "principal.builder.class":
		const builtIn = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
		if value != builtIn {
			return "a principal builder of one's own is not supported (allowed: " + builtIn + ")"
		}
	case "delegation.token.secret.key", "delegation.token.master.key":
		if value != "" {
			return "delegation tokens are not supported"
		}
	case "sasl.server.callback.handler.class", "ssl.engine.factory.class", "security.providers":
		if value != "" {
			return "Java classes cannot be loaded, and without this one others would get in"
		}
	case "ssl.trustmanager.algorithm":
		if !slices.Contains([]string{"PKIX", "SunX509"}, value) {
			return fmt.Sprintf("trust manager %q is not supported (allowed: PKIX, SunX509)", value)
		}
	}
	return ""
}

// unknownText suggests the nearest name.
func unknownText(key string) string {
	listener, rest, prefixed := kafkaconfig.SplitListener(key)
	prefix := ""
	if prefixed {
		prefix = "listener.name." + listener + "."
	}
	var candidates []string
	for _, t := range []reflect.Type{reflect.TypeFor[properties](), reflect.TypeFor[listenerProperties]()} {
		for _, p := range propertiesOf(t) {
			candidates = append(candidates, p.name)
		}
	}
	for c := range kafkaconfig.All() {
		candidates = append(candidates, c.Name)
	}
	nearest, least := "", len(rest)/3+1
	for _, c := range candidates {
		if d := levenshtein.ComputeDistance(rest, c); d < least {
			nearest, least = c, d
		}
	}
	if nearest == "" {
		return "unknown property"
	}
	return fmt.Sprintf("unknown property; did you mean %s%s?", prefix, nearest)
}
