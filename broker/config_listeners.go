package broker

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
	"github.com/brokerlab/brokerlab/broker/internal/keystore"
	"github.com/brokerlab/brokerlab/broker/internal/sasl"
)

// endpoint is one NAME://host:port.
type endpoint struct {
	name string // upper case
	host string
	port int
}

// endpoints reads listeners or advertised.listeners.
func (l *loading) endpoints(key string, texts []string) []endpoint {
	form := regexp.MustCompile(`\A(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?\d+)\z`)
	var all []endpoint
	for _, text := range texts {
		m := form.FindStringSubmatch(text)
		if len(m) == 0 || m[1] == "" {
			l.problem(key, "unable to parse %q: expected NAME://host:port, IPv6 addresses in brackets", text)
			continue
		}
		const mostPort = 1<<16 - 1
		port, err := strconv.Atoi(m[3])
		if err != nil || port < 0 || port > mostPort {
			l.problem(key, "%s: port %s is out of range (allowed: 0 to %d)", text, m[3], mostPort)
			continue
		}
		e := endpoint{name: strings.ToUpper(m[1]), host: m[2], port: port}
		if slices.ContainsFunc(all, func(o endpoint) bool { return o.name == e.name }) {
			l.problem(key, "each listener must have a different name, but there are two of %s", e.name)
			continue
		}
		all = append(all, e)
	}
	return all
}

// controllers lists the listeners (upper case) that are none of ours.
func (l *loading) controllers(p properties) []string {
	if !slices.Contains(p.ProcessRoles, "broker") {
		l.problem("process.roles", "this is a controller's configuration, and there are only brokers here (allowed: broker; broker,controller)")
	}
	var names []string
	for _, n := range p.ControllerListeners {
		names = append(names, strings.ToUpper(n))
	}
	return names
}

// protocols reads listener.security.protocol.map.
func (l *loading) protocols(text string) map[string]Protocol {
	const key = "listener.security.protocol.map"
	protocols := map[string]Protocol{}
	for _, entry := range kafkaconfig.SplitList(text) {
		at := strings.LastIndexByte(entry, ':')
		if at <= 0 {
			l.problem(key, "unable to parse %q: expected NAME:PROTOCOL", entry)
			continue
		}
		name := strings.ToUpper(strings.TrimSpace(entry[:at]))
		p := Protocol(strings.ToUpper(strings.TrimSpace(entry[at+1:])))
		if !slices.Contains([]Protocol{Plaintext, SSL, SASLPlaintext, SASLSSL}, p) {
			l.problem(key, "invalid security protocol %q of listener %s (allowed: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)", entry[at+1:], name)
			continue
		}
		protocols[name] = p
	}
	return protocols
}

// listeners resolves every listener that is not a controller's.
func (l *loading) listeners(p properties, controllers []string) []ListenerConfig {
	protocols := l.protocols(p.ProtocolMap)
	advertised := l.endpoints("advertised.listeners", p.AdvertisedListeners)
	all := l.endpoints("listeners", p.Listeners)
	l.checkAdvertised(advertised, all, controllers)
	var configs []ListenerConfig
	var served []endpoint
	for _, e := range all {
		if slices.Contains(controllers, e.name) {
			l.warn("listeners", "%s is a controller's (controller.listener.names) and is left out", e.name)
			continue
		}
		served = append(served, e)
		protocol, ok := protocols[e.name]
		if !ok {
			l.problem("listener.security.protocol.map", "no security protocol defined for listener %s", e.name)
			continue
		}
		c := ListenerConfig{Name: e.name, Protocol: protocol, Host: e.host, Port: e.port, AdvertisedHost: e.host, AdvertisedPort: e.port}
		if i := slices.IndexFunc(advertised, func(a endpoint) bool { return a.name == e.name }); i >= 0 {
			c.AdvertisedHost, c.AdvertisedPort = advertised[i].host, advertised[i].port
		} else if isUnspecified4(e.host) {
			l.problem("advertised.listeners", "listener %s cannot be advertised as the nonroutable meta-address 0.0.0.0: advertise a routable address", e.name)
		}
		l.secure(&c)
		configs = append(configs, c)
	}
	if len(all) > 0 && len(served) == 0 {
		l.problem("listeners", "no listener for clients: all of them are in controller.listener.names")
	}
	l.checkPorts(served)
	return configs
}

func isUnspecified4(host string) bool { return host == "0.0.0.0" }

func (l *loading) checkAdvertised(advertised, all []endpoint, controllers []string) {
	const key = "advertised.listeners"
	var names []string
	for _, e := range all {
		names = append(names, e.name)
	}
	for _, a := range advertised {
		switch {
		case slices.Contains(controllers, a.name):
		case !slices.Contains(names, a.name):
			l.problem(key, "%s is not in listeners (allowed: %s)", a.name, strings.Join(names, ", "))
		case isUnspecified4(a.host):
			l.problem(key, "%s: the nonroutable meta-address 0.0.0.0 cannot be advertised: use a routable address", a.name)
		}
	}
}

// checkPorts refuses a port twice, but for one IPv4 and one IPv6 address.
func (l *loading) checkPorts(served []endpoint) {
	byPort := map[int][]endpoint{}
	for _, e := range served {
		if e.port != 0 {
			byPort[e.port] = append(byPort[e.port], e)
		}
	}
	for port, same := range byPort {
		if len(same) == 1 || len(same) == 2 && family(same[0].host)*family(same[1].host) == 4*6 {
			continue
		}
		var names []string
		for _, e := range same {
			names = append(names, e.name)
		}
		l.problem("listeners", "%s have the same port %d; only one IPv4 and one IPv6 address may share a port", strings.Join(names, ", "), port)
	}
}

// family is 4 or 6, or 0 for what is no address.
func family(host string) int {
	addr, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return 0
	case addr.Is4():
		return 4
	}
	return 6
}

// advertisedNames lists the names in advertised.listeners; what is wrong with them
// is reported elsewhere.
func advertisedNames(p properties) []string {
	var names []string
	for _, text := range p.AdvertisedListeners {
		name, _, _ := strings.Cut(text, "://")
		names = append(names, strings.ToUpper(name))
	}
	return names
}

// interBroker finds the listener for other brokers. Without the property it is
// PLAINTEXT as in Kafka, or the first where there is none.
func (l *loading) interBroker(p properties, listeners []ListenerConfig) string {
	var names []string
	for i := range listeners {
		names = append(names, listeners[i].Name)
	}
	name, key := strings.ToUpper(p.InterBrokerListener), "inter.broker.listener.name"
	_, byProtocol := l.settings["security.inter.broker.protocol"]
	switch {
	case name != "" && byProtocol:
		l.problem(key, "only one of inter.broker.listener.name and security.inter.broker.protocol may be set")
		return ""
	case byProtocol:
		name, key = strings.ToUpper(p.InterBrokerProtocol), "security.inter.broker.protocol"
	case name == "":
		if len(names) > 0 && !slices.Contains(names, string(Plaintext)) {
			return names[0]
		}
		return string(Plaintext)
	}
	if len(p.AdvertisedListeners) > 0 { // then it must be one of those
		advertised := advertisedNames(p)
		names = slices.DeleteFunc(names, func(n string) bool { return !slices.Contains(advertised, n) })
	}
	if !slices.Contains(names, name) {
		l.problem(key, "%s is none of the advertised listeners (allowed: %s)", name, strings.Join(names, ", "))
	}
	return name
}

// secure resolves what a listener's protocol needs.
func (l *loading) secure(c *ListenerConfig) {
	var p listenerProperties
	l.decode(&p, scope{listener: c.Name})
	c.Threads, c.MaxAuthFrame = p.Threads, p.MaxAuthFrame
	if c.Protocol.TLS() {
		c.TLS = l.tls(c.Name, c.Protocol)
		rules, err := sasl.ParseRules(p.MappingRules)
		if err != nil {
			key, _, _ := l.lookup("ssl.principal.mapping.rules", scope{listener: c.Name})
			l.problem(key, "%w", err)
		}
		c.Principals = rules
	}
	if c.Protocol.SASL() {
		l.sasl(c, p)
	}
}

// tls loads a listener's stores and makes its configuration.
func (l *loading) tls(listener string, protocol Protocol) *tls.Config {
	s := scope{listener: listener}
	var p listenerProperties
	l.decode(&p, s)
	if protocol == SASLSSL {
		if key, _, ok := l.lookup("ssl.client.auth", s); ok && key == "ssl.client.auth" {
			if p.ClientAuth != "none" {
				l.warn(key, "has no effect on the SASL_SSL listener %s; there only %s counts", listener, s.keys(key)[0])
			}
			p.ClientAuth = "none"
		}
	}
	config, warnings, err := keystore.ServerConfig(keystore.Options{
		Identity: keystore.Store{
			Type: p.KeystoreType, Location: p.KeystoreLocation, Password: p.KeystorePassword, KeyPassword: p.KeyPassword,
			Key: p.Key, Chain: p.Chain,
		},
		Trust: keystore.Store{
			Type: p.TruststoreType, Location: p.TruststoreLocation, Password: p.TruststorePassword, Certificates: p.TruststoreCertificates,
		},
		EnabledProtocols: p.EnabledProtocols, CipherSuites: p.CipherSuites, ClientAuth: p.ClientAuth,
	})
	for _, w := range warnings {
		l.warnings = append(l.warnings, "listener "+listener+": "+w)
	}
	for _, e := range split(err) {
		name, reason := "ssl.keystore.location", e
		if known, ok := errors.AsType[*keystore.Error](e); ok {
			name, reason = known.Property, known.Err
			if known.Location != "" {
				l.storeProblem(name, s, listener, known.Location+": "+reason.Error())
				continue
			}
		}
		l.storeProblem(name, s, listener, reason.Error())
	}
	return config
}

func (l *loading) storeProblem(name string, s scope, listener, text string) {
	key, _, ok := l.lookup(name, s)
	if !ok {
		text = "listener " + listener + ": " + text
	}
	l.problem(key, "%s", text)
}

// split takes a joined error apart.
func split(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err == nil {
		return nil
	}
	return []error{err}
}

// sasl resolves a listener's mechanisms, users and lifetimes.
func (l *loading) sasl(c *ListenerConfig, p listenerProperties) {
	key, _, given := l.lookup("sasl.enabled.mechanisms", scope{listener: c.Name})
	c.Mechanisms, c.Plain, c.MaxReauth = p.Mechanisms, map[string]string{}, map[string]time.Duration{}
	supported := strings.Join(sasl.Supported(), ", ")
	if len(p.Mechanisms) == 0 {
		l.problem(key, "the %s listener %s needs a mechanism (allowed: %s)", c.Protocol, c.Name, supported)
	}
	for _, m := range p.Mechanisms {
		switch {
		case slices.Contains(sasl.Supported(), m):
			l.mechanism(c, m)
		case !given:
			l.problem(key, "the %s listener %s would offer %s, the default, which is not supported: say which (allowed: %s)", c.Protocol, c.Name, m, supported)
		default:
			l.problem(key, "%s is not supported (allowed: %s)", m, supported)
		}
	}
}

// mechanism resolves one mechanism of a listener.
func (l *loading) mechanism(c *ListenerConfig, mechanism string) {
	s := scope{listener: c.Name, mechanism: mechanism}
	var p listenerProperties
	reauth, _, _ := l.lookup("connections.max.reauth.ms", s)
	l.decode(&p, s)
	if p.MaxReauth < 0 {
		l.problem(reauth, "%d must not be negative; 0 is never", p.MaxReauth)
	}
	if p.MaxReauth > 0 {
		c.MaxReauth[mechanism] = l.milliseconds(reauth, p.MaxReauth)
	}
	// Kafka reads the JAAS entry only with the mechanism before its name.
	lower := strings.ToLower(mechanism)
	key, given, ok := l.lookup(lower+".sasl.jaas.config", scope{listener: c.Name})
	if !ok {
		if mechanism == sasl.Plain {
			l.problem("listener.name."+strings.ToLower(c.Name)+".plain.sasl.jaas.config", "PLAIN on listener %s has no users: give them by this property", c.Name)
		}
		return
	}
	modules, err := sasl.JAAS(given.value)
	want := sasl.ScramLoginModule
	if mechanism == sasl.Plain {
		want = sasl.PlainLoginModule
	}
	switch {
	case err != nil:
		l.problem(key, "%s", withoutSecrets(err.Error()))
	case len(modules) != 1:
		l.problem(key, "JAAS config property contains %d login modules, should be 1 module", len(modules))
	case modules[0].Class != want:
		l.problem(key, "login module %s is not supported for %s (allowed: %s)", modules[0].Class, mechanism, want)
	case mechanism == sasl.Plain:
		c.Plain = sasl.PlainUsers(modules)
	}
}

// withoutSecrets hides what a JAAS error quotes, unless it is an option's name:
// a quotation mark in the wrong place makes words of a password.
func withoutSecrets(text string) string {
	return regexp.MustCompile(`'[^']*'`).ReplaceAllStringFunc(text, func(quoted string) string {
		if name := strings.Trim(quoted, "'"); strings.HasPrefix(name, "user_") || name == "username" || name == "password" {
			return quoted
		}
		return "'…'"
	})
}

// checkAddress checks a host:port.
func (l *loading) checkAddress(key, value string) {
	if value == "" {
		return
	}
	_, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		l.problem(key, "%q is no host:port", value)
	}
}
