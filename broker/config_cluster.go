package broker

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/feature"
	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
)

// Keys that say where a broker's parts are when they are not in it.
const (
	engineServers    = "engine.bootstrap.servers"
	metadataServers  = "metadata.bootstrap.servers"
	metadataTopicKey = "metadata.topic"
	supportedMax     = "supported.metadata.version.max"
	heartbeatKey     = "broker.heartbeat.interval.ms"
	sessionKey       = "broker.session.timeout.ms"
)

// DefaultMetadataTopic is the topic of a metadata log that brokers share.
const DefaultMetadataTopic = "__brokerlab_metadata"

// RemoteCluster is a cluster of Kafka that a broker is a client of.
type RemoteCluster struct {
	Servers []string            // host:port, at least one
	Client  *admin.ClientConfig // how to authenticate and encrypt
}

// cluster reads where the data plane and the metadata log are, and who else there may be.
func (c *Config) cluster(l *loading, p properties) {
	c.Engine = l.remote("engine.", engineServers, p.EngineServers)
	_, said := l.settings[metadataServers]
	switch {
	case !said:
		c.Metadata = c.Engine // nil: in this process
	case len(p.MetadataServers) > 0 && len(p.EngineServers) == 0:
		l.problem(metadataServers, "brokers that share their metadata share their data: set %s too, or leave this empty", engineServers)
	default:
		c.Metadata = l.remote("metadata.", metadataServers, p.MetadataServers)
	}
	c.MetadataTopic = p.MetadataTopic
	if why := checkMetadataTopic(p.MetadataTopic); why != "" {
		l.problem(metadataTopicKey, "%q %s", p.MetadataTopic, why)
	}
	c.Heartbeat, c.Session = time.Duration(p.Heartbeat)*time.Millisecond, time.Duration(p.Session)*time.Millisecond
	c.StartTimeout = time.Duration(p.StartTimeout) * time.Millisecond
	if c.Heartbeat >= c.Session {
		l.problem(heartbeatKey, "%d must be less than %s, which is %d", p.Heartbeat, sessionKey, p.Session)
	}
	c.levels(l, p)
	if c.Engine == nil {
		return
	}
	c.DefaultReplicationFactor = -1 // the engine's own
	if _, given := l.settings["default.replication.factor"]; given {
		c.DefaultReplicationFactor = int16(p.DefaultReplicationFactor)
	}
}

// levels reads which level a new cluster gets and how high this broker can go.
func (c *Config) levels(l *loading, p properties) {
	c.SupportedLevel = feature.Latest
	if p.SupportedLevel != "" {
		level, err := feature.Parse(p.SupportedLevel)
		if err != nil {
			l.problem(supportedMax, "%w", err)
			return
		}
		c.SupportedLevel = level
	}
	c.MetadataVersion = p.MetadataVersion
	level, err := newClusterLevel(p.MetadataVersion)
	_, given := l.settings["metadata.version"]
	switch {
	case err != nil:
		l.problem("metadata.version", "%w", err)
	case level <= c.SupportedLevel:
	case given:
		l.problem("metadata.version", "%s is above %s, which is %s", p.MetadataVersion, supportedMax, feature.Name(c.SupportedLevel))
	default:
		c.MetadataVersion = feature.Name(c.SupportedLevel)
	}
}

// checkMetadataTopic tells what is wrong with the name of the metadata log; the topics beside it have longer ones.
func checkMetadataTopic(name string) string {
	const longest = 200
	ok := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
	}
	switch {
	case name == "" || name == "." || name == ".." || len(name) > longest:
		return "is no name for a topic (allowed: 1 to " + strconv.Itoa(longest) + " characters)"
	case strings.ContainsFunc(name, func(r rune) bool { return !ok(r) }):
		return "has characters that no topic has (allowed: letters, digits, dot, underscore, dash)"
	case name == "__cluster_metadata":
		return "is Kafka's own log"
	}
	return ""
}

// remote reads one cluster; nil where no servers are given. Its properties are those of Kafka's clients behind a prefix.
func (l *loading) remote(prefix, key string, servers []string) *RemoteCluster {
	for _, s := range servers {
		l.checkServer(key, s)
	}
	props := map[string]string{}
	for name, s := range l.settings {
		if rest, ok := strings.CutPrefix(name, prefix); ok && clientProperty(rest) {
			if len(servers) == 0 {
				l.warn(name, "has no effect without %s", key)
			}
			props[rest] = s.value
		}
	}
	if len(servers) == 0 {
		return nil
	}
	client, err := admin.NewClientConfig(props)
	for _, e := range split(err) {
		name, text := key, e.Error()
		if known, ok := errors.AsType[*admin.PropertyError](e); ok {
			name, text = prefix+known.Key, known.Err.Error()
		}
		l.problem(name, "%s", withoutSecrets(text))
	}
	if err != nil {
		return nil
	}
	for _, w := range client.Warnings {
		if name, _, _ := strings.Cut(w, " "); props[name] != "" {
			w = prefix + w
		}
		l.warnings = append(l.warnings, w)
	}
	return &RemoteCluster{Servers: servers, Client: client}
}

// checkServer checks one host:port of bootstrap servers.
func (l *loading) checkServer(key, server string) {
	host, port, err := net.SplitHostPort(server)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || portErr != nil || n == 0 {
		l.problem(key, "%q is no host:port (an IPv6 address stands in brackets)", server)
	}
}

// clientProperty tells of the properties of Kafka's clients that say how to authenticate and encrypt.
func clientProperty(name string) bool {
	return name == "security.protocol" || strings.HasPrefix(name, "ssl.") || strings.HasPrefix(name, "sasl.")
}

// ofClient tells of a key that is such a property for the engine or the metadata log.
func ofClient(key string) bool {
	for _, prefix := range []string{"engine.", "metadata."} {
		if rest, ok := strings.CutPrefix(key, prefix); ok && clientProperty(rest) {
			return true
		}
	}
	return false
}

// hides tells whether a topic is brokerlab's own, which no client sees.
func (c *Config) hides(topic string) bool {
	topic = strings.ReplaceAll(topic, ".", "_") // as Kafka compares names: it refuses one that differs in that only, and says from which
	if strings.HasPrefix(topic, DefaultMetadataTopic) {
		return true
	}
	rest, ok := strings.CutPrefix(topic, strings.ReplaceAll(c.MetadataTopic, ".", "_"))
	return ok && c.MetadataTopic != "" && slices.Contains([]string{"", "_heartbeats", "_snapshots"}, rest)
}

// sensitive tells whether a property holds a secret.
func sensitive(name string) bool {
	if c, ok := kafkaconfig.Lookup(name); ok {
		return c.Sensitive()
	}
	if _, rest, _ := strings.Cut(name, "."); ofClient(name) {
		c, ok := kafkaconfig.Lookup(rest)
		return !ok || c.Sensitive()
	}
	return false
}
