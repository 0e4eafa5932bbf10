package broker

import (
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
)

// properties are the broker's properties as they are written; [Config] is what
// comes of them. Each field's comment is the property's manual, printed by
// [ConfigReference]. Defaults are Kafka 4.4's unless a tag gives another.
type properties struct {
	// NodeID is the broker's id in the cluster. It is kept in log.dirs, and a directory of
	// another id is refused.
	NodeID int32 `property:"node.id" default:"1"`
	// BrokerID is the old name of node.id.
	BrokerID int32 `property:"broker.id"`
	// ClusterID is the cluster's id as clients see it. Without it the broker makes one up, and
	// keeps it in log.dirs.
	ClusterID string `property:"cluster.id" default:""`
	// Rack is the broker's rack, shown in Metadata.
	Rack string `property:"broker.rack"`
	// ProcessRoles must contain broker; a controller beside it is left out.
	ProcessRoles []string `property:"process.roles" default:"broker"`
	// ControllerListeners names listeners that are left out, as there is no controller; so a
	// server.properties of Kafka in combined mode can be used as it is.
	ControllerListeners []string `property:"controller.listener.names" default:""`

	// Listeners are the addresses to listen at, NAME://host:port between commas. An empty host is
	// all addresses of IPv4 and IPv6; IPv6 addresses stand in brackets. Port 0 is chosen by the
	// kernel. Two listeners may have the same port if one has an IPv4 and the other an IPv6 address.
	Listeners []string `property:"listeners"`
	// AdvertisedListeners are the addresses that clients are told, by listener name. A listener
	// that is not named is advertised by its own host and port.
	AdvertisedListeners []string `property:"advertised.listeners" default:""`
	// ProtocolMap gives each listener name its security protocol: PLAINTEXT, SSL,
	// SASL_PLAINTEXT or SASL_SSL. The protocols' own names need no entry unless the property is set.
	ProtocolMap string `property:"listener.security.protocol.map"`
	// InterBrokerListener is the listener that limits of the broker spare while there are others, and the one that a fenced
	// broker still takes connections on. It must be advertised when it is given; brokers do not talk to each other.
	InterBrokerListener string `property:"inter.broker.listener.name"`
	// InterBrokerProtocol may be given instead of inter.broker.listener.name.
	InterBrokerProtocol string `property:"security.inter.broker.protocol"`

	// LogDirs is where topics and metadata are kept. Without it nothing is kept over a restart, but for what is elsewhere:
	// with engine.bootstrap.servers no log.dirs is needed.
	LogDirs []string `property:"log.dirs" default:""`
	// LogDir is used when log.dirs is absent.
	LogDir []string `property:"log.dir" default:""`
	// FlushInterval makes every batch durable before it is acknowledged when it is 1, at two
	// fsyncs each; any other value leaves that to the kernel, as Kafka does.
	FlushInterval int64 `property:"log.flush.interval.messages"`

	// NumIOThreads bounds the requests that are worked at the same time. One that waits, such as
	// a long poll, does not count.
	NumIOThreads int `property:"num.io.threads"`
	// QueuedRequests bounds the requests that wait to be worked. When there are so many, no more are read until there are fewer.
	QueuedRequests int `property:"queued.max.requests"`
	// Backlog is the length of each listener's accept queue. The kernel bounds it by
	// net.core.somaxconn.
	Backlog int `property:"socket.listen.backlog.size"`
	// MaxRequestBytes is the largest request; a larger one closes the connection.
	MaxRequestBytes int `property:"socket.request.max.bytes"`
	// IdleTimeout closes connections on which nothing has happened for so many milliseconds.
	// Negative is never. There is no listener override, as in Kafka.
	IdleTimeout int64 `property:"connections.max.idle.ms"`
	// FailedAuthDelay is how many milliseconds the answer to a failed authentication, and the
	// close after it, are held back.
	FailedAuthDelay int32 `property:"connection.failed.authentication.delay.ms"`

	// MaxConnectionsPerIP is how many connections one address may have on all listeners together. One more is accepted and
	// closed at once. 0 lets in only the addresses of max.connections.per.ip.overrides, which must be given then.
	MaxConnectionsPerIP int `property:"max.connections.per.ip"`
	// PerIPOverrides gives addresses another maximum than max.connections.per.ip: host:count between commas. A host is an
	// address, IPv6 without brackets, or a name, of which the first IPv4 address counts. Of an address that is there twice
	// the last entry holds.
	PerIPOverrides string `property:"max.connections.per.ip.overrides"`
	// MaxSSLConnections is how many connections the listeners that speak TLS (SSL and SASL_SSL) may have together
	// (KIP-1015). One more waits until another ends, and those of other listeners do not wait for it. The inter-broker
	// listener is exempt while there are others, but counts.
	MaxSSLConnections int `property:"max.ssl.connections"`
	// QuotaWindowNum is how many samples rates of connections are measured over.
	QuotaWindowNum int `property:"quota.window.num"`
	// QuotaWindowSize is the length of a sample in seconds, and the longest that a connection is held for a rate.
	QuotaWindowSize int `property:"quota.window.size.seconds"`

	// Authorizer decides who may do what: org.apache.kafka.metadata.authorizer.StandardAuthorizer, or brokerlab, which
	// is the same. Empty is none: everybody may do everything, and there are no ACLs.
	Authorizer string `property:"authorizer.class.name"`
	// SuperUsers are principals, Type:name between semicolons, that ACLs do not bind.
	SuperUsers string `property:"super.users" default:""`
	// AllowEveryone allows what no ACL is about, whoever it is for.
	AllowEveryone bool `property:"allow.everyone.if.no.acl.found" default:"false"`
	// AutoCreateTopics makes a topic that a client asks for.
	AutoCreateTopics bool `property:"auto.create.topics.enable"`
	// NumPartitions is how many partitions a topic has that is created without a number.
	NumPartitions int32 `property:"num.partitions"`
	// DefaultReplicationFactor is how many replicas a topic gets that a client's request for its metadata creates, where the
	// engine is by address; else it has no effect but a warning when it is not 1. Without it that is the engine's own default.
	DefaultReplicationFactor int32 `property:"default.replication.factor"`

	// EngineServers are host:port of a cluster that speaks Kafka's protocol, which is then the data plane: brokerlab engine, or
	// Apache Kafka. This broker is the face of its broker of the same node.id, and clients never learn any other address than
	// those of brokers like this one. Empty: topics and records are in this process. How to authenticate and encrypt is said
	// as to Kafka's clients, behind the prefix: engine.security.protocol, engine.ssl.*, engine.sasl.*.
	EngineServers []string `property:"engine.bootstrap.servers" default:""`
	// MetadataServers are host:port of the cluster that holds the log of ACLs, users, configs, quotas, features and brokers,
	// with metadata.security.protocol, metadata.ssl.* and metadata.sasl.*. Absent: the engine's cluster, as the engine is
	// reached. Without an engine by address, or when it is given and empty, the log is this broker's own, in log.dirs.
	MetadataServers []string `property:"metadata.bootstrap.servers" default:""`
	// MetadataTopic is the topic of a log that brokers share. Two more begin with its name: _heartbeats and _snapshots. No
	// client sees any of them.
	MetadataTopic string `property:"metadata.topic" default:"__brokerlab_metadata"`
	// Heartbeat is after how many milliseconds a broker that shares its metadata says again that it lives.
	Heartbeat int32 `property:"broker.heartbeat.interval.ms"`
	// Session is after how many milliseconds without one it is fenced: clients are not led to it any more, and it takes no
	// new ones, until it has caught up. Where the metadata log is in Apache Kafka, 30000 is better: Kafka takes some nine seconds to
	// elect another leader for it.
	Session int32 `property:"broker.session.timeout.ms"`
	// StartTimeout is how many milliseconds a broker waits at its start for an engine and a metadata log by address, and then to
	// be let into the cluster.
	StartTimeout int32 `property:"initial.broker.registration.timeout.ms"`
	// SupportedLevel is the highest metadata.version that this broker works with, by Kafka's name; empty is all that it knows.
	// A cluster that has a higher one refuses it, and while it is in a cluster the cluster cannot be upgraded beyond it: so a
	// broker stands for an older one.
	SupportedLevel string `property:"supported.metadata.version.max" default:""`
	// MetadataVersion is the level of a new cluster, by Kafka's name; an existing one keeps its own.
	MetadataVersion string `property:"metadata.version" default:"4.4-IV2"`
	// MetricsListener is the host:port where metrics for Prometheus and /healthz are served; empty
	// is nowhere.
	MetricsListener string `property:"metrics.listener" default:""`
	// KernelAccounting is who counts connections in the kernel: auto (BPF, else sock_diag), require (BPF, or
	// the start fails), off, or lab:<socket> (the owner of the lab, asked over its Unix socket).
	KernelAccounting string `property:"kernel.accounting" default:"auto"`
	// StoreWatch is how many milliseconds lie between two looks at the files of key and trust stores; one that has changed
	// is loaded as an alteration would load it, and a broken one is logged and left. 0 is never: stores are loaded anew
	// only when they are altered, as in Kafka.
	StoreWatch int64 `property:"brokerlab.ssl.store.watch.ms" default:"0"`
	// APIsEnabled serves brokerlab's own requests (keys from 10001 on) beside Kafka's.
	APIsEnabled bool `property:"brokerlab.apis.enable" default:"true"`
	// ConfigPolicy is what is done with the configurations that clients push (KIP-1324): log writes each to the broker's
	// log, store keeps the latest of each client, fault fails on purpose, to test clients with, and a program with a broker
	// of its own may have others. Without it the request is not there.
	ConfigPolicy string `property:"client.config.policy.class.name"`
	// ConfigMaxBytes is how many bytes of keys and values a client may push; a larger push is refused before the policy
	// sees it.
	ConfigMaxBytes int `property:"client.config.max.bytes"`
	// ConfigPolicyTimeout is how many milliseconds a client that has pushed waits for the policy, then it is answered that
	// the push failed. Four pushes are processed at a time; others wait in a queue, and this time includes that.
	ConfigPolicyTimeout int32 `property:"client.config.policy.timeout.ms" default:"5000"`
	// ConfigStoreMax is how many clients the policy store keeps; one more takes the place of the one that has not pushed
	// for longest.
	ConfigStoreMax int32 `property:"client.config.store.max.instances" default:"10000"`
	// ConfigFaultPanic names the pushes at which the policy fault panics: a list of KEY, of KEY=VALUE, or * for all. A client
	// is answered UNKNOWN_SERVER_ERROR then.
	ConfigFaultPanic string `property:"client.config.fault.panic" default:""`
	// ConfigFaultFail names those that the policy fault fails, in the same way and with the same answer.
	ConfigFaultFail string `property:"client.config.fault.fail" default:""`
	// ConfigFaultSleep names those that the policy fault sleeps on before anything else, in the same way. It sleeps though
	// client.config.policy.timeout.ms is over, when the client has been answered.
	ConfigFaultSleep string `property:"client.config.fault.sleep" default:""`
	// ConfigFaultSleepMillis is how many milliseconds it sleeps, at most 3600000.
	ConfigFaultSleepMillis int32 `property:"client.config.fault.sleep.ms" default:"10000"`
	// PushConfigKey is the API key of KIP-1324's PushConfig, to which Kafka has given no number yet.
	PushConfigKey int32 `property:"push.config.api.key" default:"95"`
	// ListClientConnectionsKey is the API key of KIP-1329's ListClientConnections. Kafka has
	// since given 93 to another request.
	ListClientConnectionsKey int32 `property:"list.client.connections.api.key" default:"93"`
}

// listenerProperties can be given for all listeners, or for one with the prefix
// listener.name.<name in lower case>.
type listenerProperties struct {
	// Threads is how many loops serve the listener's connections.
	Threads int `property:"num.network.threads"`
	// MaxConnections is how many connections there may be: on all listeners together as it stands, on one with its
	// prefix. One more waits until another ends. Given without a prefix it is also the limit of each listener that has
	// none of its own. The inter-broker listener is exempt from that of all while there are others, not from its own.
	MaxConnections int `property:"max.connections"`
	// ConnectionRate is how many connections a second may come, on all listeners together or on one, as for
	// max.connections. The next waits, at most quota.window.size.seconds. As it is an average over all of quota.window.num
	// samples, a burst of about ten seconds' worth passes first.
	ConnectionRate int `property:"max.connection.creation.rate"`
	// MaxAuthFrame is the largest request before authentication is complete, on SASL listeners.
	MaxAuthFrame int `property:"sasl.server.max.receive.size"`
	// Mechanisms are the SASL mechanisms on offer: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512. The default
	// is GSSAPI, as in Kafka, which is not supported: a SASL listener must say what it offers.
	Mechanisms []string `property:"sasl.enabled.mechanisms"`
	// JAAS holds the users of PLAIN, in Kafka's form: org.apache.kafka.common.security.plain.PlainLoginModule
	// required user_alice="secret"; The mechanism stands before it: listener.name.<name>.plain.sasl.jaas.config, or
	// plain.sasl.jaas.config for all listeners. SCRAM users are made at run time (kafka-configs --alter).
	JAAS string `property:"sasl.jaas.config" mechanism:"true"`
	// MaxReauth is how many milliseconds after which clients must authenticate again; 0 is never.
	// It can be given for one mechanism: listener.name.<name>.scram-sha-256.connections.max.reauth.ms.
	MaxReauth int64 `property:"connections.max.reauth.ms" mechanism:"true"`

	// ClientAuth is whether clients present a certificate: none, requested, required. On a
	// SASL_SSL listener only the value with the listener's prefix counts.
	ClientAuth string `property:"ssl.client.auth"`
	// MappingRules turn the subject of a client's certificate into a principal name. Look-around,
	// back-references, possessive quantifiers and nested character classes in patterns are refused.
	MappingRules string `property:"ssl.principal.mapping.rules"`
	// EnabledProtocols are TLSv1.2 and TLSv1.3; older ones are not offered.
	EnabledProtocols []string `property:"ssl.enabled.protocols"`
	// CipherSuites are the suites on offer by Java's names; empty is Go's choice. Those of TLS 1.3
	// cannot be chosen one by one.
	CipherSuites []string `property:"ssl.cipher.suites"`
	// KeystoreType is JKS, PKCS12 or PEM. A JKS or PKCS12 file may be of the other kind, as in Java.
	KeystoreType string `property:"ssl.keystore.type"`
	// KeystoreLocation is the file with the private key and its certificate chain.
	KeystoreLocation string `property:"ssl.keystore.location"`
	// KeystorePassword opens a JKS or PKCS12 key store; PEM has none.
	KeystorePassword string `property:"ssl.keystore.password"`
	// KeyPassword opens the private key, if its password is not the store's.
	KeyPassword string `property:"ssl.key.password"`
	// Key is the private key as PEM text, PKCS#8.
	Key string `property:"ssl.keystore.key"`
	// Chain is the certificate chain of ssl.keystore.key as PEM text.
	Chain string `property:"ssl.keystore.certificate.chain"`
	// TruststoreType is JKS, PKCS12 or PEM.
	TruststoreType string `property:"ssl.truststore.type"`
	// TruststoreLocation is the file with the certificates that clients' certificates must lead to.
	// Without one the system's are trusted.
	TruststoreLocation string `property:"ssl.truststore.location"`
	// TruststorePassword opens the trust store; PEM has none.
	TruststorePassword string `property:"ssl.truststore.password"`
	// AllowDNChanges lets a certificate that is altered at run time have another subject.
	AllowDNChanges bool `property:"ssl.allow.dn.changes"`
	// AllowSANChanges lets a certificate that is altered at run time lack alternative names of the old one.
	AllowSANChanges bool `property:"ssl.allow.san.changes"`
	// TruststoreCertificates are trusted certificates as PEM text.
	TruststoreCertificates string `property:"ssl.truststore.certificates"`
}

// property is what a field's tags say.
type property struct {
	name         string
	byMechanism  bool
	defaultValue string
	index        int
}

// propertiesOf lists the properties that a struct is read from.
func propertiesOf(t reflect.Type) []property {
	var list []property
	for i := range t.NumField() {
		tag := t.Field(i).Tag
		p := property{name: tag.Get("property"), byMechanism: tag.Get("mechanism") != "", index: i}
		if value, ours := tag.Lookup("default"); ours {
			p.defaultValue = value
		} else if c, ok := kafkaconfig.Lookup(p.name); ok && c.Default != nil {
			p.defaultValue = *c.Default
		}
		list = append(list, p)
	}
	return list
}

// obeyed tells whether a property is read at all, and whether for each listener.
func obeyed(name string) (perListener, ok bool) {
	named := func(p property) bool { return p.name == name }
	if slices.ContainsFunc(propertiesOf(reflect.TypeFor[listenerProperties]()), named) {
		return true, true
	}
	return false, slices.ContainsFunc(propertiesOf(reflect.TypeFor[properties]()), named)
}

// decode fills a struct of properties from the settings of a scope. Values that
// cannot be used become problems, and the field gets its default.
func (l *loading) decode(into any, s scope) {
	v := reflect.ValueOf(into).Elem()
	for _, p := range propertiesOf(v.Type()) {
		in := s
		if !p.byMechanism {
			in.mechanism = ""
		}
		key, given, ok := l.lookup(p.name, in)
		value := p.defaultValue
		if ok {
			if err := check(p.name, given.value); err != nil {
				l.problem(key, "%w", err)
			} else {
				value = given.value
			}
		}
		if err := set(v.Field(p.index), value); err != nil {
			l.problem(key, "%w", err)
		}
	}
}

// check holds a value to Kafka's own rules, if it is a property of Kafka's.
func check(name, value string) error {
	c, ok := kafkaconfig.Lookup(name)
	if !ok {
		return nil
	}
	err := c.Check(value)
	invalid, ok := errors.AsType[*kafkaconfig.InvalidError](err)
	if !ok || invalid.Why == "" {
		return err
	}
	text := shown(name, value) + ": " + invalid.Why
	if c.Min != nil {
		text += " (allowed: from " + strconv.FormatFloat(*c.Min, 'f', -1, 64)
		if c.Max != nil {
			text += " to " + strconv.FormatFloat(*c.Max, 'f', -1, 64)
		}
		text += ")"
	}
	return errors.New(text)
}

// set converts a value that has passed check.
func set(field reflect.Value, value string) error {
	switch field.Kind() {
	case reflect.String:
		field.SetString(value)
	case reflect.Bool:
		switch {
		case strings.EqualFold(value, "true"):
			field.SetBool(true)
		case !strings.EqualFold(value, "false"):
			return errors.New(value + ": expected true or false")
		}
	case reflect.Slice:
		field.Set(reflect.ValueOf(kafkaconfig.SplitList(value)))
	case reflect.Int, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, field.Type().Bits())
		if err != nil {
			return errors.New(value + ": not a whole number in range")
		}
		field.SetInt(n)
	default:
		return errors.New("unexpected kind of field " + field.Kind().String())
	}
	return nil
}
