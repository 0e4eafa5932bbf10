package broker

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/brokerlab/brokerlab/broker/internal/dynamicconfig"
	"github.com/brokerlab/brokerlab/broker/internal/inetaddress"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
	"github.com/brokerlab/brokerlab/broker/quota"
)

// limits reads what the start needs of connection limits. Their values are taken from the properties when they are put
// to work, since alterations go over them.
func (c *Config) limits(l *loading, p properties) {
	c.Window = quota.Window{Samples: p.QuotaWindowNum, Size: time.Duration(p.QuotaWindowSize) * time.Second}
	values := dynamicconfig.Values(c.Properties)
	if check(dynamicconfig.MaxPerIP, values.Get(dynamicconfig.MaxPerIP)) != nil {
		return // said before
	}
	var err error
	if c.PerIPOverrides, err = perIP(context.Background(), values); err != nil {
		l.problem(dynamicconfig.PerIPOverrides, "%w", err)
	}
}

// perIP reads max.connections.per.ip.overrides and looks its names up. A host that is unknown is an
// [inetaddress.ErrUnknownHost], everything else is in Kafka's words.
func perIP(ctx context.Context, v dynamicconfig.Values) (map[netip.Addr]int, error) {
	overrides, err := v.PerIP()
	if err != nil {
		return nil, err
	}
	const patience = 20 * time.Second // for all names together
	lookups, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	byAddress := make(map[netip.Addr]int, len(overrides))
	var unknown []error
	for _, o := range overrides {
		addr, err := inetaddress.Resolve(lookups, o.Host)
		if err != nil {
			unknown = append(unknown, err)
			continue
		}
		byAddress[addr] = max(o.Count, 0)
	}
	return byAddress, errors.Join(unknown...)
}

// overrides are max.connections.per.ip.overrides as they were put to work last. Guarded by the lock of alterations.
type overrides struct {
	text      string // also when its names could not be found, so that they are not looked for at each alteration
	addresses map[netip.Addr]int
}

// protected is the listener that limits of the broker spare, as Kafka finds it: where nothing is said it is the one
// named PLAINTEXT, and none if there is none.
func (c *Config) protected() string {
	return strings.ToUpper(cmp.Or(c.Properties["inter.broker.listener.name"], c.Properties["security.inter.broker.protocol"], string(Plaintext)))
}

// quotas are the limits that values come to for these listeners. A listener without a limit of its own has the
// broker's, the inter-broker listener too.
func (c *Config) quotas(v dynamicconfig.Values, listeners []*boundListener, o overrides) quota.Config {
	q := quota.Config{
		MaxConnections: int(v.Int(dynamicconfig.MaxConnections)), MaxSSLConnections: int(v.Int(dynamicconfig.MaxSSL)),
		MaxPerIP: int(v.Int(dynamicconfig.MaxPerIP)), CreationRate: int(v.Int(dynamicconfig.ConnectionRate)),
		PerIP: o.addresses, Listeners: make(map[string]quota.ListenerConfig, len(listeners)), InterBroker: c.protected(),
	}
	for _, l := range listeners {
		q.Listeners[l.Name] = quota.ListenerConfig{
			MaxConnections: int(v.IntOf(l.Name, dynamicconfig.MaxConnections)), CreationRate: int(v.IntOf(l.Name, dynamicconfig.ConnectionRate)),
		}
	}
	return q
}

// readOverrides are the overrides by address that values come to. What cannot be found leaves the former, as in Kafka, and
// is the error.
func (b *Broker) readOverrides(v dynamicconfig.Values) (overrides, error) {
	next := overrides{text: v.Get(dynamicconfig.PerIPOverrides), addresses: b.overrides.addresses}
	if next.text == b.overrides.text {
		return next, nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { // a broker that stops waits for no name server
		select {
		case <-b.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	addresses, err := perIP(ctx, v)
	if err == nil {
		next.addresses = addresses
	}
	return next, err
}

// setIPRates makes the image's quotas of addresses the rates that they are held to.
func (b *Broker) setIPRates(image *metadata.Image) {
	byDefault, rates := quota.Unlimited, map[netip.Addr]int{}
	for _, q := range image.Quotas() {
		rate, ok := q.Values[metadata.ConnectionCreationRate]
		if !ok || len(q.Entity) != 1 || q.Entity[0].Type != metadata.EntityIP {
			continue
		}
		name := q.Entity[0].Name
		if name == nil {
			byDefault = int(rate)
		} else if addr, literal := inetaddress.Parse(*name); literal { // names are looked up before they are stored
			rates[addr] = int(rate)
		}
	}
	b.quota.SetIPRates(byDefault, rates)
}
