package dynamicconfig

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
)

// RefusedError is a change that Kafka does not accept; its text is Kafka's.
type RefusedError struct {
	Text string
}

func (r *RefusedError) Error() string { return r.Text }

// Inapplicable is the refusal of a part of the broker. Kafka wraps it so, a mix-up of a constructor's
// arguments.
func Inapplicable(text string) *RefusedError {
	return &RefusedError{"Invalid value org.apache.kafka.common.config.ConfigException: " + text + " for configuration Invalid dynamic configuration"}
}

// Values are configs by their full names.
type Values map[string]string

// Merge puts weaker values under stronger ones: static, those of all brokers, those of one. A value takes
// the place of its synonyms, in whatever unit they are.
func Merge(static, clusterWide, perBroker map[string]string) Values {
	all := Values(maps.Clone(static))
	if all == nil {
		all = Values{}
	}
	for _, stronger := range []map[string]string{clusterWide, perBroker} {
		for name := range stronger {
			for _, synonym := range synonyms(name) {
				delete(all, synonym)
			}
		}
		maps.Copy(all, stronger)
	}
	return all
}

// units are names of one config in different units, the strongest first.
func units() [][]string {
	return [][]string{
		{"log.roll.ms", "log.roll.hours"},
		{"log.roll.jitter.ms", "log.roll.jitter.hours"},
		{"log.retention.ms", "log.retention.minutes", "log.retention.hours"},
	}
}

func synonyms(name string) []string {
	for _, names := range append(units(), []string{"log.flush.interval.ms", "log.flush.scheduler.interval.ms"}) {
		if slices.Contains(names, name) && (name != "log.flush.scheduler.interval.ms") {
			return names
		}
	}
	return nil
}

// Synonyms lists the configs that stand in for name, itself first.
func Synonyms(name string) []string {
	if names := synonyms(name); names != nil {
		return names
	}
	if _, rest, ok := kafkaconfig.SplitListener(name); ok {
		for _, byMechanism := range []string{
			"sasl.jaas.config", "sasl.login.callback.handler.class", "sasl.login.class", "sasl.server.callback.handler.class",
			"connections.max.reauth.ms",
		} {
			if strings.HasSuffix(rest, byMechanism) {
				rest = byMechanism
			}
		}
		return []string{name, rest}
	}
	return []string{name}
}

// Get is a value, or Kafka's default; "" where that is null.
func (v Values) Get(name string) string {
	if value, ok := v[name]; ok {
		return value
	}
	if c, ok := kafkaconfig.Lookup(name); ok && c.Default != nil {
		return *c.Default
	}
	return ""
}

// Of is a value as a listener (upper case) sees it: its own before that of all.
func (v Values) Of(listener, name string) string {
	if value, ok := v[Prefix(listener)+name]; ok {
		return value
	}
	return v.Get(name)
}

// Prefix is what stands before the configs of one listener.
func Prefix(listener string) string { return "listener.name." + strings.ToLower(listener) + "." }

// Int is a number that was checked before; 0 for what is none.
func (v Values) Int(name string) int64 { return number(v.Get(name)) }

// IntOf is [Values.Of] for a number that was checked before.
func (v Values) IntOf(listener, name string) int64 { return number(v.Of(listener, name)) }

func number(text string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64) // checked before
	return n
}

// retention is log.retention.ms, by whichever name it is given.
func (v Values) retention() int64 {
	const minute = 60_000
	var ms int64
	switch {
	case v["log.retention.ms"] != "":
		ms = v.Int("log.retention.ms")
	case v["log.retention.minutes"] != "":
		ms = v.Int("log.retention.minutes") * minute
	default:
		ms = v.Int("log.retention.hours") * 60 * minute
	}
	if ms < 0 {
		return -1
	}
	return ms
}

// JavaSet prints names as Java prints a hash set of them.
func JavaSet(names []string) string {
	const capacity = 16
	return "[" + strings.Join(JavaOrder(slices.Sorted(slices.Values(names)), capacity), ", ") + "]"
}

// JavaOrder puts names into the order in which Java goes through a hash table that was made for so many.
func JavaOrder(names []string, capacity int) []string {
	buckets := uint32(1)
	for int(buckets) < capacity || float64(len(names)) > float64(buckets)*0.75 {
		buckets *= 2
	}
	place := func(name string) uint32 {
		var h uint32
		for _, c := range name {
			h = 31*h + uint32(c)
		}
		return (h ^ h>>16) & (buckets - 1)
	}
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int { return int(place(a)) - int(place(b)) })
	return names
}
