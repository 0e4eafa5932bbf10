package dynamicconfig

import (
	"maps"
	"slices"
	"strings"

	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
)

// CheckNames judges what one resource is to hold after a change: the configs of one broker, or of all. fixed
// tells of configs that Kafka does not have and that cannot be altered.
func CheckNames(after map[string]string, perBroker bool, fixed func(name string) bool) error {
	all := slices.Sorted(maps.Keys(after))
	refused := func(why string, is func(name string) bool) error {
		names := slices.DeleteFunc(slices.Clone(all), func(n string) bool { return !is(n) })
		if len(names) == 0 {
			return nil
		}
		return &RefusedError{why + ": " + JavaSet(names)}
	}
	err := refused("Cannot update these configs dynamically", func(name string) bool {
		c, ok := kafkaconfig.Lookup(name)
		return ok && c.Mode == kafkaconfig.ReadOnly || !ok && fixed(name)
	})
	if err == nil {
		err = refused("These security configs can be dynamically updated only per-listener using the listener prefix", func(name string) bool {
			c, ok := kafkaconfig.Lookup(name)
			return ok && c.Security
		})
	}
	for i := 0; i < len(all) && err == nil; i++ {
		_, base, _ := kafkaconfig.SplitListener(all[i])
		if c, ok := kafkaconfig.Lookup(base); ok && c.Mode != kafkaconfig.ReadOnly {
			err = checkType(c, after[all[i]])
		}
	}
	if err == nil && !perBroker {
		err = refused("Cannot update these configs at default cluster level, broker id must be specified", onOneBroker)
	}
	return err
}

// onOneBroker tells whether a config can be set only for a broker of its own.
func onOneBroker(name string) bool {
	_, base, prefixed := kafkaconfig.SplitListener(name)
	c, ok := kafkaconfig.Lookup(name)
	return ok && c.Mode == kafkaconfig.PerBroker || prefixed && !onAllBrokers(base)
}

// onAllBrokers tells which of a listener's configs may be set for all brokers at once.
func onAllBrokers(name string) bool {
	return name == MaxConnections || name == ConnectionRate || name == "num.network.threads"
}

func checkType(c kafkaconfig.Config, value string) error {
	// The classes of Kafka that a broker could be given, and that nothing here needs to load.
	const ownBuilder = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
	if c.Name == "config.providers" { // Kafka looks at its names only when it starts
		return nil
	}
	if err := c.Check(value); err != nil {
		return &RefusedError{err.Error()}
	}
	if c.Type == kafkaconfig.Class && strings.TrimSpace(value) != ownBuilder {
		return &RefusedError{"Invalid value " + value + " for configuration " + c.Name + ": Class " + value + " could not be found."}
	}
	return nil
}
