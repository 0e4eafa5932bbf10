package dynamicconfig

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
)

// Change is what a broker's whole configuration is and is to become, static values included.
type Change struct {
	Now, Next Values
	// InterBroker is the listener (upper case) for other brokers; "" when none need be there.
	InterBroker string
}

// Check judges the change as Kafka's broker does. The error is a [*RefusedError].
func (c Change) Check() error {
	if maps.Equal(c.Now, c.Next) {
		return nil
	}
	for _, check := range []func() error{
		c.requirements, c.assignments, c.listenersAreReadable, c.addresses, c.cordoned, c.prefixed, c.reporters, c.cleaner, c.threads,
		c.localRetention, c.copyLag, c.listenersStay, c.limits, c.remote,
	} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// changed tells whether one of the configs has another value.
func (c Change) changed(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return c.Now.Get(name) != c.Next.Get(name) })
}

func refuse(format string, args ...any) error { return &RefusedError{fmt.Sprintf(format, args...)} }

func inapplicable(format string, args ...any) error {
	return Inapplicable(fmt.Sprintf(format, args...))
}

// requirements are what Kafka asks of the whole of a configuration (KafkaConfig's validateValues).
func (c Change) requirements() error {
	const hour, threads, buffer = 3_600_000, "log.cleaner.threads", "log.cleaner.dedupe.buffer.size"
	ms := func(inMillis, inHours string) int64 {
		if c.Next[inMillis] != "" {
			return c.Next.Int(inMillis)
		}
		return c.Next.Int(inHours) * hour
	}
	n := c.Next.Int(threads)
	switch {
	case c.changed("log.roll.ms") && ms("log.roll.ms", "log.roll.hours") < 1:
		return refuse("requirement failed: log.roll.ms must be greater than or equal to 1")
	case c.changed("log.roll.jitter.ms") && ms("log.roll.jitter.ms", "log.roll.jitter.hours") < 0:
		return refuse("requirement failed: log.roll.jitter.ms must be greater than or equal to 0")
	case c.changed("log.retention.ms") && c.Next.retention() == 0:
		return refuse("requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
	case !c.changed(threads, buffer):
	case n == 0:
		return refuse("/ by zero")
	case c.Next.Int(buffer)/n <= 1<<20:
		return refuse("requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.")
	}
	return nil
}

// assignments keeps the interval between assignments of each kind of group within its bounds.
func (c Change) assignments() error {
	for _, kind := range []string{"consumer", "share", "streams"} {
		interval := "group." + kind + ".assignment.interval.ms"
		least, most := "group."+kind+".min.assignment.interval.ms", "group."+kind+".max.assignment.interval.ms"
		switch is := c.Next.Int(interval); {
		case !c.changed(interval):
		case is < c.Next.Int(least):
			return refuse("%s must be greater than or equal to %s", interval, least)
		case is > c.Next.Int(most):
			return refuse("%s must be less than or equal to %s", interval, most)
		}
	}
	return nil
}

// cleaner bounds a step of the number of cleaner threads.
func (c Change) cleaner() error {
	const name = "log.cleaner.threads"
	was, is := c.Now.Int(name), c.Next.Int(name)
	switch {
	case was == is:
	case is < was/2:
		return inapplicable("Log cleaner threads cannot be reduced to less than half the current value %d", was)
	case is > was*2:
		return inapplicable("Log cleaner threads cannot be increased to more than double the current value %d", was)
	}
	return nil
}

func (c Change) cordoned() error {
	const name = "cordoned.log.dirs"
	if !c.changed(name) || c.Next.Get(name) == "*" {
		return nil
	}
	dirs := kafkaconfig.SplitList(c.Next.Get("log.dirs"))
	if len(dirs) == 0 {
		dirs = kafkaconfig.SplitList(c.Next.Get("log.dir"))
	}
	missing := slices.DeleteFunc(kafkaconfig.SplitList(c.Next.Get(name)), func(d string) bool { return slices.Contains(dirs, d) })
	if len(missing) > 0 {
		return refuse("requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing entries : %s", strings.Join(missing, ", "))
	}
	return nil
}

// prefixed checks the values of running listeners that [CheckNames] passes: those of configs that can be altered
// only with a listener's prefix.
func (c Change) prefixed() error {
	for _, name := range slices.Sorted(maps.Keys(c.Next)) {
		was, had := c.Now[name]
		known, ok := kafkaconfig.Resolve(name)
		listener, rest, prefixed := kafkaconfig.SplitListener(name)
		if !prefixed || had && was == c.Next[name] || !slices.Contains(c.running(), strings.ToUpper(listener)) {
			continue
		}
		if !ok {
			if known.Config, ok = kafkaconfig.Lookup(rest); !ok {
				continue
			}
		}
		if err := known.Check(c.Next[name]); err != nil {
			return inapplicable("%s", err)
		}
	}
	return nil
}

func (c Change) reporters() error {
	const name, own = "metric.reporters", "org.apache.kafka.common.metrics.JmxReporter"
	if c.changed(name) && slices.ContainsFunc(kafkaconfig.SplitList(c.Next.Get(name)), func(class string) bool { return class != own }) {
		return inapplicable("Validation of dynamic config update of Set(%s) failed with class %s kafka.server.DynamicMetricsReporters", name, "class")
	}
	return nil
}

// threads bounds a step: no less than half, no more than double.
func (c Change) threads() error {
	for _, name := range []string{"num.io.threads", "num.replica.fetchers", "num.recovery.threads.per.data.dir", "background.threads"} {
		if err := step(name, c.Now.Int(name), c.Next.Int(name)); err != nil {
			return err
		}
	}
	for _, listener := range c.staying() {
		const name = "num.network.threads"
		if err := step(name, c.Now.IntOf(listener, name), c.Next.IntOf(listener, name)); err != nil {
			return err
		}
	}
	return nil
}

func step(name string, was, is int64) error {
	var why string
	switch {
	case was == is:
		return nil
	case is <= 0:
		why = "value should be at least 1"
	case is < was/2:
		why = fmt.Sprintf("value should be at least half the current value %d", was)
	case is > was*2:
		why = fmt.Sprintf("value should not be greater than double the current value %d", was)
	default:
		return nil
	}
	return inapplicable("Dynamic thread count update validation failed for %s=%d, %s", name, is, why)
}

// localRetention keeps the tiered store's local part within the whole.
func (c Change) localRetention() error {
	for _, r := range []struct {
		local, whole string
		limit        int64
	}{
		{"log.local.retention.ms", "log.retention.ms", c.Next.retention()},
		{"log.local.retention.bytes", "log.retention.bytes", c.Next.Int("log.retention.bytes")},
	} {
		const same = -2
		local := c.Next.Int(r.local)
		switch {
		case r.limit == -1 || local == same || c.Now.retention() == c.Next.retention() && !c.changed(r.local, r.whole):
		case local == -1:
			return inapplicable("Invalid value -1 for configuration %s: Value must not be -1 as %s value is set as %d.", r.local, r.whole, r.limit)
		case local > r.limit:
			return inapplicable("Invalid value %d for configuration %s: Value must not be more than %s property value: %d", local, r.local, r.whole, r.limit)
		}
	}
	return nil
}

// copyLag keeps how far the tiered store may lag behind within what is kept here.
func (c Change) copyLag() error {
	const same = -2
	for _, r := range []struct {
		lag, local string
		whole      int64
	}{
		{"log.remote.copy.lag.ms", "log.local.retention.ms", c.Next.retention()},
		{"log.remote.copy.lag.bytes", "log.local.retention.bytes", c.Next.Int("log.retention.bytes")},
	} {
		effective := c.Next.Int(r.local)
		if effective == same {
			effective = r.whole
		}
		if lag := c.Next.Int(r.lag); c.changed(r.lag) && effective >= 0 && lag > effective {
			return inapplicable("Invalid value %d for configuration %s: Value must not exceed %s (effective value: %d)", lag, r.lag, r.local, effective)
		}
	}
	return nil
}

// remote are the pools of tiered storage.
func (c Change) remote() error {
	for _, name := range []string{
		"remote.log.reader.threads", "remote.log.manager.copier.thread.pool.size",
		"remote.log.manager.expiration.thread.pool.size", "remote.log.manager.follower.thread.pool.size",
	} {
		if err := step(name, c.Now.Int(name), c.Next.Int(name)); err != nil {
			return err
		}
	}
	return nil
}
