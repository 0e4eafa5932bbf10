package broker

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/internal/sasl"
	"github.com/brokerlab/brokerlab/broker/quota"
)

// Protocol is a security protocol by Kafka's name.
type Protocol string

// The security protocols.
const (
	Plaintext     Protocol = "PLAINTEXT"
	SSL           Protocol = "SSL"
	SASLPlaintext Protocol = "SASL_PLAINTEXT"
	SASLSSL       Protocol = "SASL_SSL"
)

// TLS tells whether the protocol is encrypted.
func (p Protocol) TLS() bool { return p == SSL || p == SASLSSL }

// SASL tells whether clients authenticate by SASL.
func (p Protocol) SASL() bool { return p == SASLPlaintext || p == SASLSSL }

// Config is a broker's whole configuration, as [LoadConfig] reads it from
// properties: validated, defaults filled in, key stores loaded. What the
// properties mean stands at the fields of the types that they are read into;
// [ConfigReference] prints it. A Config is not changed once a broker has it.
type Config struct {
	NodeID                   int32
	ClusterID                string // "" = the broker chooses and keeps one
	Rack                     string
	Listeners                []ListenerConfig // at least one, those of controllers left out
	InterBrokerListener      string           // name of one of Listeners
	LogDirs                  []string         // empty: nothing is kept
	NumIOThreads             int
	QueuedRequests           int // 0: any number
	Backlog                  int
	MaxRequestBytes          int
	IdleTimeout              time.Duration      // 0: never
	Window                   quota.Window       // of rates; zero: Kafka's default
	PerIPOverrides           map[netip.Addr]int // max.connections.per.ip.overrides, names resolved
	FailedAuthDelay          time.Duration
	Authorizer               string // authorizer.class.name, by Kafka's name of it; empty: none
	AllowEveryone            bool
	SuperUsers               []string // Type:name
	AutoCreateTopics         bool
	NumPartitions            int32
	DefaultReplicationFactor int16
	SyncWrites               bool // log.flush.interval.messages=1
	MetadataVersion          string
	MetricsListener          string        // host:port, "" is none
	KernelAccounting         string        // auto, require, off, lab:<socket>
	StoreWatch               time.Duration // 0: files of stores are not watched
	APIsEnabled              bool
	ListClientConnectionsKey int16
	PushConfigKey            int16
	ConfigPolicy             string        // client.config.policy.class.name; empty: PushConfig is not served
	ConfigPolicyTimeout      time.Duration // 0: the default

	Engine         *RemoteCluster // where topics and records are; nil: in this process
	Metadata       *RemoteCluster // where the metadata log is; nil: in log.dirs, and nobody shares it
	MetadataTopic  string         // of such a log; "" is [DefaultMetadataTopic]
	Heartbeat      time.Duration  // 0: Kafka's default
	Session        time.Duration  // 0: Kafka's default
	StartTimeout   time.Duration  // 0: Kafka's default
	SupportedLevel int16          // the highest metadata.version that this broker works with; 0: all that it knows

	Properties map[string]string // every key as given, overrides applied
	Ignored    []string          // keys of Kafka that have no use here, sorted
	Warnings   []string          // to be logged at the start
}

// ListenerConfig is one listener with its listener.name. overrides resolved.
type ListenerConfig struct {
	Name           string // upper case
	Protocol       Protocol
	Host           string // "" = all addresses; IPv6 without brackets
	Port           int    // 0 = chosen by the kernel
	AdvertisedHost string // "" = the machine's name
	AdvertisedPort int    // 0 = the bound port
	Threads        int
	MaxAuthFrame   int
	TLS            *tls.Config              // nil without TLS
	Principals     *sasl.Mapper             // of client certificates; nil without TLS
	Mechanisms     []string                 // of SASL listeners
	Plain          map[string]string        // password by user, for PLAIN
	MaxReauth      map[string]time.Duration // by mechanism; absent is no limit
}

// PropertyError is one problem of a configuration.
type PropertyError struct {
	Where string // "server.properties:12", "-o", or "" when nothing was given
	Key   string
	Err   error
}

func (e *PropertyError) Error() string {
	if e.Where == "" {
		return fmt.Sprintf("%s: %v", e.Key, e.Err)
	}
	return fmt.Sprintf("%s: %s: %v", e.Where, e.Key, e.Err)
}

func (e *PropertyError) Unwrap() error { return e.Err }

// LoadConfig reads a server.properties file ("" is none) and key=value
// overrides, which win. With strict, unknown keys are problems instead of
// warnings.
//
// The error joins all problems, each a [*PropertyError] with its file, line and
// key. Key and trust stores are loaded, so that a broker made of the result does
// not find out later that one is missing. Values of passwords are in no error.
func LoadConfig(path string, overrides []string, strict bool) (*Config, error) {
	l := &loading{settings: map[string]setting{}}
	if path != "" {
		if err := l.readFile(path); err != nil {
			return nil, err
		}
	}
	l.readOverrides(overrides)
	c := &Config{Properties: map[string]string{}}
	for key, s := range l.settings {
		c.Properties[key] = s.value
	}
	var p properties
	l.decode(&p, scope{})
	c.apply(l, p)
	controllers := l.controllers(p)
	l.decode(&listenerProperties{}, scope{}) // checked even where no listener reads them
	c.Listeners = l.listeners(p, controllers)
	c.InterBrokerListener = l.interBroker(p, c.Listeners)
	c.limits(l, p)
	c.cluster(l, p)
	l.classify(c, controllers, strict)
	c.Warnings = append(c.Warnings, l.warnings...)
	slices.Sort(c.Ignored)
	if len(l.problems) > 0 {
		return nil, l.joined()
	}
	return c, nil
}

// apply copies what needs no more than a conversion, and checks what belongs
// together.
func (c *Config) apply(l *loading, p properties) {
	c.NodeID = p.NodeID
	if id, given := l.settings["broker.id"]; given {
		switch _, both := l.settings["node.id"]; {
		case !both:
			c.NodeID = p.BrokerID
		case p.BrokerID != p.NodeID:
			l.problem("broker.id", "node.id and broker.id must be the same, but are %d and %s; broker.id is deprecated", p.NodeID, id.value)
		}
	}
	if c.NodeID < 0 {
		l.problem("broker.id", "must be at least 0")
	}
	c.ClusterID, c.Rack = p.ClusterID, p.Rack
	if strings.ContainsFunc(c.ClusterID, func(r rune) bool { return r <= ' ' || r > '~' }) {
		l.problem("cluster.id", "%q has characters that are not visible ASCII", c.ClusterID)
	}
	if c.LogDirs = p.LogDirs; len(c.LogDirs) == 0 {
		c.LogDirs = p.LogDir
	}
	c.NumIOThreads, c.QueuedRequests, c.Backlog, c.MaxRequestBytes = p.NumIOThreads, p.QueuedRequests, p.Backlog, p.MaxRequestBytes
	c.FailedAuthDelay = time.Duration(p.FailedAuthDelay) * time.Millisecond
	c.IdleTimeout = l.milliseconds("connections.max.idle.ms", p.IdleTimeout)
	if c.IdleTimeout > 0 && c.FailedAuthDelay >= c.IdleTimeout {
		l.problem("connection.failed.authentication.delay.ms", "%d must be less than connections.max.idle.ms, which is %d", p.FailedAuthDelay, p.IdleTimeout)
	}
	c.Authorizer, c.AllowEveryone = l.authorizer(p.Authorizer), p.AllowEveryone
	c.SuperUsers = l.superUsers(p.SuperUsers)
	c.AutoCreateTopics, c.NumPartitions = p.AutoCreateTopics, p.NumPartitions
	c.DefaultReplicationFactor = 1
	if p.DefaultReplicationFactor != 1 && len(p.EngineServers) == 0 {
		l.warn("default.replication.factor", "%d is not possible with one broker; topics get 1 replica", p.DefaultReplicationFactor)
	}
	c.SyncWrites = p.FlushInterval == 1
	c.MetricsListener, c.KernelAccounting = p.MetricsListener, p.KernelAccounting
	l.checkAddress("metrics.listener", p.MetricsListener)
	socket, isLab := strings.CutPrefix(p.KernelAccounting, "lab:")
	if isLab && socket == "" || !isLab && !slices.Contains([]string{"auto", "require", "off"}, p.KernelAccounting) {
		l.problem("kernel.accounting", "%q is not one of auto, require, off, lab:<socket>", p.KernelAccounting)
	}
	c.APIsEnabled = p.APIsEnabled
	if c.StoreWatch = time.Duration(p.StoreWatch) * time.Millisecond; p.StoreWatch < 0 {
		l.problem("brokerlab.ssl.store.watch.ms", "%d must not be negative; 0 is never", p.StoreWatch)
	}
	c.ListClientConnectionsKey = l.apiKey("list.client.connections.api.key", p.ListClientConnectionsKey)
	c.PushConfigKey = l.apiKey("push.config.api.key", p.PushConfigKey)
	c.configPush(l, p)
}

// loading is one run of [LoadConfig]: the settings, and what was found about
// them.
type loading struct {
	file     string
	settings map[string]setting
	problems []*PropertyError
	warnings []string
}

// setting is a value and where it was given.
type setting struct {
	value string
	where string
	line  int // in the file; overrides come after all lines
}

// problem notes a problem with a key. A key that is not given is reported with
// the file.
func (l *loading) problem(key, format string, args ...any) {
	where := l.file
	if s, ok := l.settings[key]; ok {
		where = s.where
	}
	l.problems = append(l.problems, &PropertyError{Where: where, Key: key, Err: fmt.Errorf(format, args...)})
}

func (l *loading) warn(key, format string, args ...any) {
	e := PropertyError{Where: l.file, Key: key, Err: fmt.Errorf(format, args...)}
	if s, ok := l.settings[key]; ok {
		e.Where = s.where
	}
	l.warnings = append(l.warnings, e.Error())
}

// apiKey is a key that a proposal's API is moved to.
func (l *loading) apiKey(name string, key int32) int16 {
	if key < 1 || key > 1<<15-1 {
		l.problem(name, "%d is no API key (allowed: 1 to 32767)", key)
	}
	return int16(key)
}

// joined is all problems in order of line, each said once.
func (l *loading) joined() error {
	slices.SortStableFunc(l.problems, func(a, b *PropertyError) int {
		return cmp.Or(cmp.Compare(l.settings[a.Key].line, l.settings[b.Key].line), strings.Compare(a.Key, b.Key))
	})
	var all []error
	said := map[string]bool{}
	for _, p := range l.problems {
		if !said[p.Error()] {
			all = append(all, p)
		}
		said[p.Error()] = true
	}
	return errors.Join(all...)
}

// milliseconds is a duration of which a negative one is none, told as 0.
func (l *loading) milliseconds(key string, n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	switch {
	case n == 0:
		l.problem(key, "0 would close every connection at once; use -1 for never")
	case n < 0:
		return 0
	}
	return time.Duration(min(n, most)) * time.Millisecond
}

// StandardAuthorizer is the class name of Kafka's authorizer, and of ours where clients ask.
const StandardAuthorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

// authorizer checks the name of an authorizer; ours has two.
func (l *loading) authorizer(class string) string {
	switch class {
	case "":
		return ""
	case StandardAuthorizer, "brokerlab":
		return StandardAuthorizer
	}
	l.problem("authorizer.class.name", "%q is not supported (allowed: empty, %s, brokerlab)", class, StandardAuthorizer)
	return ""
}

// superUsers are the entries of the property, sorted.
func (l *loading) superUsers(text string) []string {
	users, err := acl.ParseSuperUsers(text)
	if err != nil {
		for text := range strings.Lines(err.Error()) {
			l.problem("super.users", "%s", strings.TrimSuffix(text, "\n"))
		}
	}
	return slices.Sorted(maps.Keys(users))
}

// scope is where a value is looked for: a listener (upper case), a mechanism of
// it, or everywhere.
type scope struct{ listener, mechanism string }

// keys lists the names a property may have in the scope, the one that wins first.
func (s scope) keys(name string) []string {
	mechanism := strings.ToLower(s.mechanism)
	var keys []string
	if s.listener != "" {
		prefix := "listener.name." + strings.ToLower(s.listener) + "."
		if mechanism != "" {
			keys = append(keys, prefix+mechanism+"."+name)
		}
		keys = append(keys, prefix+name)
	}
	if mechanism != "" {
		keys = append(keys, mechanism+"."+name)
	}
	return append(keys, name)
}

// lookup finds the key that sets a property in a scope.
func (l *loading) lookup(name string, s scope) (key string, value setting, ok bool) {
	for _, key := range s.keys(name) {
		if value, ok = l.settings[key]; ok {
			return key, value, true
		}
	}
	return name, setting{}, false
}

// shown is a value as it may be printed.
func shown(name, value string) string {
	if sensitive(name) {
		return "[hidden]"
	}
	return value
}
