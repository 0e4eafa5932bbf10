package broker

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/broker/configpush/fault"
	pushlog "github.com/brokerlab/brokerlab/broker/configpush/log"
	"github.com/brokerlab/brokerlab/broker/configpush/store"
	"github.com/brokerlab/brokerlab/broker/internal/api"
	"github.com/brokerlab/brokerlab/broker/internal/dynamicconfig"
)

// The keys of KIP-1324, and what policies are told beside them.
const (
	configMaxBytes = "client.config.max.bytes"
	configPolicy   = "client.config.policy.class.name"
	logDirs        = "log.dirs"
)

// policyDir is the folder of log.dirs that policies may write to; it is not made before one does.
const policyDir = store.Dir

// configPush reads what is done with the configurations that clients push.
func (c *Config) configPush(l *loading, p properties) {
	c.ConfigPolicy = strings.TrimSpace(p.ConfigPolicy)
	if c.ConfigPolicy != "" && !slices.Contains(configpush.Names(), c.ConfigPolicy) {
		l.problem(configPolicy, "%q is no policy here (allowed: empty, %s)", c.ConfigPolicy, strings.Join(configpush.Names(), ", "))
	}
	if p.ConfigPolicyTimeout < 1 {
		l.problem("client.config.policy.timeout.ms", "%d must be at least 1", p.ConfigPolicyTimeout)
	}
	c.ConfigPolicyTimeout = time.Duration(p.ConfigPolicyTimeout) * time.Millisecond
	if p.ConfigStoreMax < 1 {
		l.problem(store.MaxInstances, "%d must be at least 1", p.ConfigStoreMax)
	}
	for name, rules := range map[string]string{
		fault.Panic: p.ConfigFaultPanic, fault.Fail: p.ConfigFaultFail, fault.Sleep: p.ConfigFaultSleep,
	} {
		if err := fault.CheckRules(rules); err != nil {
			l.problem(name, "%v", err)
		}
	}
	if ms := p.ConfigFaultSleepMillis; ms < 0 || ms > fault.MaxSleepMillis {
		l.problem(fault.SleepMillis, "%d is not from 0 to %d", ms, fault.MaxSleepMillis)
	}
}

// openPolicy makes the policy for pushed configurations; nil when there is to be none. An error leaves nothing open.
func (b *Broker) openPolicy() (configpush.Policy, error) {
	name := b.cfg.ConfigPolicy
	var anew func() configpush.Policy
	switch name {
	case "":
		return nil, nil //nolint:nilnil // no policy is what most brokers have
	case configpush.Log:
		anew = func() configpush.Policy { return pushlog.New(b.log) }
	case configpush.Store:
		anew = func() configpush.Policy { return store.New(b.log) }
	case configpush.Fault:
		anew = func() configpush.Policy { return fault.New(b.log) }
	default:
		var ok bool
		if anew, ok = configpush.Lookup(name); !ok {
			return nil, fmt.Errorf("%s: %q is no policy here (allowed: %s)", configPolicy, name, strings.Join(configpush.Names(), ", "))
		}
	}
	var policy configpush.Policy
	err := api.Guarded(func() error {
		if policy = anew(); policy == nil {
			return errors.New("there is none")
		}
		return policy.Configure(b.policyProperties(b.cfg.Properties))
	})
	if err == nil {
		return policy, nil
	}
	if policy != nil {
		err = errors.Join(err, api.Guarded(policy.Close))
	}
	return nil, fmt.Errorf("%s: configure %s: %w", configPolicy, name, err)
}

// policyProperties is what a policy is told: the properties, and what is always among them.
func (b *Broker) policyProperties(values map[string]string) map[string]string {
	all := map[string]string{
		configMaxBytes:                    strconv.Itoa(configpush.DefaultMaxBytes),
		store.MaxInstances:                strconv.Itoa(store.DefaultMaxInstances),
		"client.config.policy.timeout.ms": strconv.FormatInt(cmp.Or(b.cfg.ConfigPolicyTimeout, api.DefaultPolicyTimeout).Milliseconds(), 10),
	}
	maps.Copy(all, values)
	all[logDirs] = strings.Join(b.cfg.LogDirs, ",")
	return all
}

// observe lets the policy see the connections, if it asks for them.
func (b *Broker) observe() {
	if o, ok := b.policy.(configpush.Observer); ok {
		if err := api.Guarded(func() error { o.Observe(b.api.OpenFor); return nil }); err != nil {
			b.log.Error("the policy for client configurations cannot see connections", slog.Any("error", err))
		}
	}
}

// closePolicy ends the policy after its last push.
func (b *Broker) closePolicy() error {
	if b.policy == nil {
		return nil
	}
	if err := api.Guarded(b.policy.Close); err != nil {
		return fmt.Errorf("close the policy for client configurations: %w", err)
	}
	return nil
}

// limitPushes puts to work what values say of pushed configurations.
func (b *Broker) limitPushes(values dynamicconfig.Values, changed bool) {
	b.api.SetConfigMaxBytes(values.Int(configMaxBytes))
	if changed {
		b.api.Reconfigure(b.policyProperties(values))
	}
}
