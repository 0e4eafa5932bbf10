package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/brokerlab/brokerlab/broker/internal/api"
	"github.com/brokerlab/brokerlab/broker/internal/dynamicconfig"
	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
	"github.com/brokerlab/brokerlab/broker/internal/keystore"
	"github.com/brokerlab/brokerlab/broker/internal/network"
	"github.com/brokerlab/brokerlab/broker/internal/sasl"
	"github.com/brokerlab/brokerlab/broker/quota"
)

// reconfiguration is what an alteration of dynamic configs makes of the broker's listeners. It is made by
// [Broker.prepare], under the lock of alterations, and ends by commit or discard.
type reconfiguration struct {
	broker  *Broker
	next    []*boundListener // what there will be, in order
	added   []*network.Bound // their sockets
	removed []*boundListener // what will be no more
	resized map[string]int   // threads by listener
	changed []string         // listeners that stay and obey something else, for the log

	limits    quota.Config
	overrides overrides
	unknown   error  // hosts of overrides that could not be found
	unapplied string // Kafka's words for that

	values  dynamicconfig.Values // everything that will be in force
	altered bool                 // and is not now
}

// prepare checks what dynamic configs are to become, and takes what they need.
func (b *Broker) prepare(a api.Alteration) (api.Prepared, error) {
	r := &reconfiguration{broker: b, resized: map[string]int{}}
	if err := r.plan(a); err != nil {
		r.discard()
		return api.Prepared{}, err
	}
	return api.Prepared{Commit: r.commit, Discard: r.discard}, nil
}

// differs tells whether a config is set to something else, or was set again.
func differs(a api.Alteration, name string) bool {
	was, had := a.Now[name]
	is, has := a.Next[name]
	return had != has || was != is || a.Named[name]
}

// touched lists the properties without prefixes that are altered for a listener, its own and those of all.
func touched(a api.Alteration, listener string) map[string]bool {
	names := map[string]bool{}
	for _, all := range []iter.Seq[string]{maps.Keys(a.Now), maps.Keys(a.Next), maps.Keys(a.Named)} {
		for key := range all {
			if !differs(a, key) {
				continue
			}
			rest := key
			if of, own, prefixed := kafkaconfig.SplitListener(key); prefixed {
				if !strings.EqualFold(of, listener) {
					continue
				}
				rest = own
			}
			name, _ := withoutMechanism(rest)
			names[name] = true
		}
	}
	return names
}

// plan works out what there will be, and binds what is new.
func (r *reconfiguration) plan(a api.Alteration) error {
	b := r.broker
	merged := dynamicconfig.Merge(b.cfg.Properties, nil, a.Next)
	now := *b.listeners.Load()
	wanted, err := r.wanted(a, merged, now)
	if err != nil {
		return err
	}
	for i := range wanted {
		w := &wanted[i]
		at := slices.IndexFunc(now, func(l *boundListener) bool { return l.Name == w.Name })
		// A listener that is served keeps its address until a restart, as in Kafka.
		if at >= 0 && (b.serving.Load() || now[at].Host == w.Host && now[at].Port == w.Port) {
			stays, unusable := r.stays(a, merged, now[at])
			if unusable != nil {
				return unusable
			}
			r.next = append(r.next, stays)
			continue
		}
		if r.ofFile(w) && len(touched(api.Alteration{Next: a.Next}, w.Name)) == 0 {
			err = r.add(*w)
		} else {
			err = r.addBy(merged, *w)
		}
		if err != nil {
			return err
		}
	}
	for _, l := range now {
		if !slices.ContainsFunc(r.next, func(n *boundListener) bool { return n.tls == l.tls }) {
			r.removed = append(r.removed, l)
		}
	}
	r.limit(a, merged)
	r.values, r.altered = merged, !maps.Equal(a.Now, a.Next)
	return nil
}

// limit works out which connection limits there will be.
func (r *reconfiguration) limit(a api.Alteration, merged dynamicconfig.Values) {
	b := r.broker
	r.overrides, r.unknown = b.readOverrides(merged)
	r.limits = b.cfg.quotas(merged, r.next, r.overrides)
	if r.unknown != nil {
		r.unapplied = a.Unapplied(dynamicconfig.PerIPOverrides)
	}
}

// wanted lists the listeners that there are to be; of those that run only the name counts.
func (r *reconfiguration) wanted(a api.Alteration, merged dynamicconfig.Values, now []*boundListener) ([]ListenerConfig, error) {
	var all []ListenerConfig
	if !differs(a, "listeners") && !differs(a, "listener.security.protocol.map") {
		for _, l := range now {
			all = append(all, *l.ListenerConfig)
		}
		return all, nil
	}
	if _, dynamic := a.Next["listeners"]; !dynamic {
		return r.broker.cfg.Listeners, nil
	}
	l := loadingOf(merged)
	var p properties
	l.decode(&p, scope{})
	controllers := l.controllers(p)
	protocols := l.protocols(p.ProtocolMap)
	advertised := l.endpoints("advertised.listeners", p.AdvertisedListeners)
	for _, e := range l.endpoints("listeners", p.Listeners) {
		if slices.Contains(controllers, e.name) {
			continue
		}
		c := ListenerConfig{Name: e.name, Protocol: protocols[e.name], Host: e.host, Port: e.port, AdvertisedHost: e.host, AdvertisedPort: e.port}
		if i := slices.IndexFunc(advertised, func(a endpoint) bool { return a.name == e.name }); i >= 0 {
			c.AdvertisedHost, c.AdvertisedPort = advertised[i].host, advertised[i].port
		}
		all = append(all, c)
	}
	return all, l.failed()
}

// ofFile tells whether a listener is the properties file's, with all that it needs.
func (r *reconfiguration) ofFile(c *ListenerConfig) bool {
	all := r.broker.cfg.Listeners
	return len(all) > 0 && slices.ContainsFunc(all, func(o ListenerConfig) bool {
		return o.Name == c.Name && o.Host == c.Host && o.Port == c.Port && o.Threads == c.Threads
	})
}

// loadingOf reads values that are no file's.
func loadingOf(values map[string]string) *loading {
	l := &loading{settings: map[string]setting{}}
	for key, value := range values {
		l.settings[key] = setting{value: value}
	}
	return l
}

// failed is all problems in one line, or nil.
func (l *loading) failed() error {
	if len(l.problems) == 0 {
		return nil
	}
	return errors.New(strings.ReplaceAll(l.joined().Error(), "\n", "; "))
}

// stays is a listener that runs, with what it is to obey from now on.
func (r *reconfiguration) stays(a api.Alteration, merged dynamicconfig.Values, was *boundListener) (*boundListener, error) {
	names := touched(a, was.Name)
	config := *was.ListenerConfig
	next := &boundListener{ListenerConfig: &config, bound: was.bound, advertised: was.advertised, tls: was.tls, nextTLS: was.tls.Load()}
	l := loadingOf(merged)
	var p listenerProperties
	l.decode(&p, scope{listener: was.Name})
	if names["num.network.threads"] && p.Threads > 0 {
		config.Threads = p.Threads
		r.resized[was.Name] = p.Threads
	}
	isSASL := func(n string) bool { return strings.HasPrefix(n, "sasl.") || n == "connections.max.reauth.ms" }
	isTLS := func(n string) bool { return strings.HasPrefix(n, "ssl.") }
	if config.Protocol.SASL() && slices.ContainsFunc(slices.Collect(maps.Keys(names)), isSASL) {
		l.sasl(&config, p)
		r.changed = append(r.changed, was.Name)
	}
	if config.Protocol.TLS() && slices.ContainsFunc(slices.Collect(maps.Keys(names)), isTLS) {
		if err := r.renew(l, next); err != nil {
			return nil, err
		}
		r.changed = append(r.changed, was.Name)
	}
	return next, l.failed()
}

// renew loads a listener's stores anew. The certificate keeps the names that it has, unless the properties file says
// otherwise: altered at run time, ssl.allow.dn.changes and ssl.allow.san.changes have no effect.
func (r *reconfiguration) renew(l *loading, next *boundListener) error {
	const failed = "Validation of dynamic config update of SSLFactory failed: org.apache.kafka.common."
	var static, dynamic listenerProperties
	l.decode(&dynamic, scope{listener: next.Name})
	config, err := l.stores(next.ListenerConfig, dynamic)
	if err != nil {
		return errors.New(failed + "errors.InvalidConfigurationException: " + err.Error())
	}
	loadingOf(r.broker.cfg.Properties).decode(&static, scope{listener: next.Name})
	was, is := next.nextTLS.Certificates[0].Leaf, config.Certificates[0].Leaf
	if err = keystore.CheckRenewal(was, is, static.AllowDNChanges, static.AllowSANChanges); err != nil {
		return errors.New(failed + "config.ConfigException: " + err.Error())
	}
	rules, err := sasl.ParseRules(dynamic.MappingRules)
	if err != nil {
		return err
	}
	next.nextTLS, next.TLS, next.Principals = config, config, rules
	return nil
}

// stores loads a listener's key and trust stores; what is wrong with them is said in Kafka's words as far as it
// has any.
func (l *loading) stores(c *ListenerConfig, p listenerProperties) (*tls.Config, error) {
	switch {
	case p.KeystoreLocation != "" && p.KeystoreType == "PEM" && p.KeystorePassword != "":
		return nil, errors.New("SSL key store password cannot be specified with PEM format, only key password may be specified")
	case p.KeystoreLocation != "" && p.KeystoreType != "PEM" && p.KeystorePassword == "":
		return nil, errors.New("SSL key store is specified, but key store password is not specified.") //nolint:revive,staticcheck // Kafka's text
	}
	config := l.tls(c.Name, c.Protocol)
	for _, problem := range l.problems {
		text := problem.Err.Error()
		for location, kind := range map[string]string{p.KeystoreLocation: p.KeystoreType, p.TruststoreLocation: p.TruststoreType} {
			if location != "" && strings.HasPrefix(text, location+": ") {
				return nil, fmt.Errorf("Failed to load %s SSL keystore %s", kind, text) //nolint:staticcheck // Kafka's text
			}
		}
	}
	return config, l.failed()
}

// addBy is add for a listener whose protocol needs what values say.
func (r *reconfiguration) addBy(merged dynamicconfig.Values, config ListenerConfig) error {
	l := loadingOf(merged)
	l.secure(&config)
	if err := l.failed(); err != nil {
		return err
	}
	return r.add(config)
}

// add binds a listener that is new.
func (r *reconfiguration) add(config ListenerConfig) error {
	l := &boundListener{ListenerConfig: &config, tls: &atomic.Pointer[tls.Config]{}, nextTLS: config.TLS}
	l.tls.Store(config.TLS)
	socket, err := r.broker.bind(l)
	if err != nil {
		return err
	}
	r.added, r.next = append(r.added, socket), append(r.next, l)
	return nil
}

// discard gives back the sockets of listeners that are not to be.
func (r *reconfiguration) discard() {
	for _, socket := range r.added {
		socket.Discard()
	}
}

// commit puts everything to work. finish ends the connections of listeners and threads that are no more.
func (r *reconfiguration) commit() (finish func()) {
	b := r.broker
	var ends []func()
	for _, l := range r.removed {
		end, err := b.network.Remove(l.Name)
		if err != nil {
			b.log.Error("a listener cannot be removed", slog.String("listener", l.Name), slog.Any("error", err))
			continue
		}
		ends = append(ends, end)
		b.log.Info("listener removed", slog.String("listener", l.Name), slog.String("address", l.bound.String()))
	}
	for _, l := range r.next {
		l.tls.Store(l.nextTLS)
	}
	b.listeners.Store(&r.next)
	if r.unknown != nil {
		b.log.Error(r.unapplied, slog.Any("error", r.unknown)) //nolint:sloglint // Kafka's line, with the names of configs in it
	}
	b.overrides = r.overrides
	b.quota.Configure(r.limits)
	b.limitPushes(r.values, r.altered)
	b.publish(r.removed)
	for _, name := range slices.Sorted(maps.Keys(r.resized)) {
		end, err := b.network.Resize(name, r.resized[name])
		if err != nil {
			b.log.Error("num.network.threads stays as it was", slog.String("listener", name), slog.Any("error", err))
		}
		ends = append(ends, end)
	}
	for _, socket := range r.added {
		if err := socket.Serve(); err != nil {
			b.log.Error("a listener is not served", slog.Any("error", err))
		}
	}
	b.reregister()
	for _, name := range r.changed {
		b.log.Info("reloaded what a listener obeys", slog.String("listener", name))
	}
	return func() {
		for _, end := range ends {
			end()
		}
		if len(r.removed) > 0 {
			b.publish(nil)
		}
	}
}

// bind opens a listener's socket; its port is watched by the kernel before anyone can connect.
func (b *Broker) bind(l *boundListener) (*network.Bound, error) {
	security, err := network.ParseProtocol(string(l.Protocol))
	if err != nil {
		return nil, fmt.Errorf("listener %s: %w", l.Name, err)
	}
	n := network.Listener{
		Name: l.Name, Protocol: security, Host: l.Host, Port: l.Port,
		Backlog: b.cfg.Backlog, Threads: l.Threads, MaxFrame: b.cfg.MaxRequestBytes, MaxAuthFrame: l.MaxAuthFrame,
		IdleTimeout: b.cfg.IdleTimeout, FailureDelay: b.cfg.FailedAuthDelay,
	}
	if security.TLS() {
		n.TLS = l.tls.Load
	}
	socket, err := b.network.Bind(n)
	if err != nil {
		return nil, err
	}
	l.bound = socket.Addr()
	return socket, nil
}

// publish tells the parts of the broker which listeners there are, and what each obeys. Those that are leaving
// have connections that are answered still.
func (b *Broker) publish(leaving []*boundListener) {
	all := map[string]api.Listener{}
	mechanisms, plain, lifetimes := map[string][]string{}, map[string]map[string]string{}, map[string]map[string]time.Duration{}
	for _, l := range slices.Concat(leaving, *b.listeners.Load()) {
		if l.advertised.Port == 0 {
			host, port := b.advertised(context.Background(), l)
			l.advertised = api.Endpoint{Host: host, Port: port}
			b.log.Info("listening", slog.String("listener", l.Name), slog.String("protocol", string(l.Protocol)),
				slog.String("address", l.bound.String()), slog.String("advertised", net.JoinHostPort(host, strconv.Itoa(int(port)))))
		}
		all[l.Name] = api.Listener{Advertised: l.advertised, Protocol: string(l.Protocol), Principals: l.Principals}
		if l.Protocol.SASL() {
			mechanisms[l.Name], plain[l.Name], lifetimes[l.Name] = l.Mechanisms, l.Plain, l.MaxReauth
		}
	}
	b.api.SetListeners(all)
	b.sasl.Update(mechanisms, plain, func(listener, mechanism string) time.Duration { return lifetimes[listener][mechanism] })
}

// own tells of properties that Kafka does not have: they are read at the start.
func own(name string) bool {
	switch name {
	case "super.users", "allow.everyone.if.no.acl.found": // Kafka's authorizer has them, and its brokers take them for somebody's own
		return false
	}
	_, ours := obeyed(name)
	_, kafkas := kafkaconfig.Lookup(name)
	return ours && !kafkas || ofClient(name)
}
