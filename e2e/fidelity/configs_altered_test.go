package fidelity

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a request as a whole may look like.
func TestRequestsToAlterConfigsAreJudgedAlike(t *testing.T) {
	b := shared(t)
	for _, p := range b.peers() {
		p.makeTopics(t, 1, "configs.t")
	}
	two := func(a, b *kmsg.IncrementalAlterConfigsRequest) *kmsg.IncrementalAlterConfigsRequest {
		a.Resources = append(a.Resources, b.Resources...)
		return a
	}
	long := strings.Repeat("v", 40_000)
	for name, req := range map[string]kmsg.Request{
		"nothing":                        incremental(true, ofBroker, "1"),
		"no resources":                   at(kmsg.NewPtrIncrementalAlterConfigsRequest(), 1),
		"no resources legacy":            at(kmsg.NewPtrAlterConfigsRequest(), 2),
		"a resource twice":               two(incremental(true, ofBroker, "1", to("max.connections", "5")), incremental(true, ofBroker, "1", to("max.connections", "6"))),
		"a topic twice":                  two(incremental(true, ofTopic, "configs.t", to("segment.ms", "5")), incremental(true, ofTopic, "configs.t")),
		"good and bad":                   two(incremental(true, ofBroker, "1", to("max.connections", "50")), incremental(true, ofTopic, "configs.t", to("segment.ms", "x"))),
		"brokers and topics":             two(incremental(true, ofTopic, "configs.t", to("segment.ms", "50000")), incremental(true, ofBroker, "", to("max.connections", "50"))),
		"a key twice":                    incremental(true, ofBroker, "1", to("max.connections", "50"), to("max.connections", "51")),
		"a key set and deleted":          incremental(true, ofTopic, "configs.t", to("segment.ms", "50000"), change{remove, "segment.ms", nil}),
		"a null among others":            incremental(true, ofBroker, "1", to("max.connections", "50"), change{set, "background.threads", nil}, change{set, "num.io.threads", nil}),
		"appended null":                  incremental(true, ofTopic, "configs.t", change{add, "cleanup.policy", nil}),
		"deleted with a value":           incremental(true, ofTopic, "configs.t", change{remove, "segment.ms", new("5")}),
		"an empty key":                   incremental(true, ofBroker, "1", to("", "5")),
		"an empty key of a topic":        incremental(true, ofTopic, "configs.t", to("", "5")),
		"a key with blanks":              incremental(true, ofBroker, "1", to(" max.connections", "5")),
		"an unknown key":                 incremental(true, ofBroker, "1", to("no.such", "5")),
		"an unknown key deleted":         incremental(true, ofBroker, "1", change{remove, "no.such", nil}),
		"an unknown key appended to":     incremental(true, ofBroker, "1", change{add, "no.such", new("5")}),
		"an unknown key of a topic":      incremental(true, ofTopic, "configs.t", to("no.such", "5")),
		"unknown deleted of a topic":     incremental(true, ofTopic, "configs.t", change{remove, "no.such", nil}),
		"an unknown key of a group":      incremental(true, ofGroup, "g", to("no.such", "5")),
		"read-only":                      incremental(true, ofBroker, "1", to("node.id", "5"), to("log.dirs", "/x"), to("max.connections", "5")),
		"read-only in the cluster":       incremental(true, ofBroker, "", to("zookeeper.connect", "x"), to("broker.rack", "r")),
		"per broker in the cluster":      incremental(true, ofBroker, "", to("listeners", "PLAINTEXT://:1"), to("max.connections", "5")),
		"security without a prefix":      incremental(true, ofBroker, "1", to("ssl.keystore.location", "/x"), to("ssl.keystore.password", "x"), to("ssl.truststore.location", "/x")),
		"security in the cluster":        incremental(true, ofBroker, "", to("ssl.keystore.location", "/x")),
		"a prefix in the cluster":        incremental(true, ofBroker, "", to("listener.name.plaintext.max.connections", "5"), to("listener.name.ssl.ssl.keystore.location", "/x")),
		"a limit of a listener":          incremental(true, ofBroker, "1", to("listener.name.plaintext.max.connections", "500")),
		"a limit of no listener":         incremental(true, ofBroker, "1", to("listener.name.nosuch.max.connections", "500")),
		"a bad limit of a listener":      incremental(true, ofBroker, "1", to("listener.name.plaintext.max.connections", "x")),
		"no limit of a listener":         incremental(true, ofBroker, "1", to("listener.name.plaintext.max.connections", "0")),
		"rate 0 of a listener":           incremental(true, ofBroker, "1", to("listener.name.plaintext.max.connection.creation.rate", "0")),
		"rate below 0":                   incremental(true, ofBroker, "1", to("max.connection.creation.rate", "-1")),
		"an upper-case prefix":           incremental(true, ofBroker, "1", to("listener.name.PLAINTEXT.max.connections", "500")),
		"a prefix of nothing":            incremental(true, ofBroker, "1", to("listener.name.plaintext", "500"), to("listener.name..max.connections", "5")),
		"threads of a listener":          incremental(true, ofBroker, "1", to("listener.name.plaintext.num.network.threads", "4")),
		"many threads of a listener":     incremental(true, ofBroker, "1", to("listener.name.plaintext.num.network.threads", "400")),
		"an idle time of a listener":     incremental(true, ofBroker, "1", to("listener.name.plaintext.connections.max.idle.ms", "400")),
		"no store":                       incremental(true, ofBroker, "1", to("listener.name.ssl.ssl.keystore.location", "/no/such/store")),
		"a store of no type":             incremental(true, ofBroker, "1", to("listener.name.ssl.ssl.keystore.type", "NOSUCH")),
		"client authentication":          incremental(true, ofBroker, "1", to("listener.name.ssl.ssl.client.auth", "required")),
		"bad client authentication":      incremental(true, ofBroker, "1", to("listener.name.ssl.ssl.client.auth", "perhaps")),
		"addresses":                      incremental(true, ofBroker, "1", to("max.connections.per.ip.overrides", "127.0.0.1:5,localhost:6")),
		"an address without a number":    incremental(true, ofBroker, "1", to("max.connections.per.ip.overrides", "127.0.0.1")),
		"an address that is none":        incremental(true, ofBroker, "1", to("max.connections.per.ip.overrides", "a b:5")),
		"an address's number":            incremental(true, ofBroker, "1", to("max.connections.per.ip.overrides", "127.0.0.1:x")),
		"an IPv6 address":                incremental(true, ofBroker, "1", to("max.connections.per.ip.overrides", "::1:5")),
		"none per address":               incremental(true, ofBroker, "1", to("max.connections.per.ip", "0")),
		"none per address but one":       incremental(true, ofBroker, "1", to("max.connections.per.ip", "0"), to("max.connections.per.ip.overrides", "127.0.0.1:500")),
		"another broker":                 incremental(true, ofBroker, "2", to("max.connections", "5")),
		"no broker":                      incremental(true, ofBroker, "x", to("max.connections", "5")),
		"a broker with a sign":           incremental(true, ofBroker, "+1", to("max.connections", "5")),
		"a broker with zeros":            incremental(true, ofBroker, "01", to("max.connections", "5")),
		"no topic":                       incremental(true, ofTopic, "nosuch", to("segment.ms", "5")),
		"a topic's bad name":             incremental(true, ofTopic, "no such", to("segment.ms", "5")),
		"a topic without a name":         incremental(true, ofTopic, "", to("segment.ms", "5")),
		"no topic and a bad value":       incremental(true, ofTopic, "nosuch", to("segment.ms", "x")),
		"a group without a name":         incremental(true, ofGroup, "", to("consumer.session.timeout.ms", "50000")),
		"metrics without a name":         incremental(true, ofClients, "", to("interval.ms", "5000")),
		"a logger":                       incremental(true, ofLogger, "1", to("no.such.Logger", "DEBUG")),
		"a logger of another":            incremental(true, ofLogger, "2", to("root", "DEBUG")),
		"a logger of nobody":             incremental(true, ofLogger, "", to("root", "DEBUG")),
		"type 3":                         incremental(true, 3, "x", to("a", "b")),
		"type 0":                         incremental(true, 0, "x", to("a", "b")),
		"type -1":                        incremental(true, -1, "x", to("a", "b")),
		"a long value":                   incremental(true, ofBroker, "1", to("max.connections.per.ip.overrides", long)),
		"a long value of a topic":        incremental(true, ofTopic, "configs.t", to("follower.replication.throttled.replicas", long)),
		"two problems":                   incremental(true, ofBroker, "1", to("node.id", "5"), to("max.connections", "x")),
		"two bad values":                 incremental(true, ofBroker, "1", to("max.connections", "x"), to("background.threads", "y")),
		"two bad values of a topic":      incremental(true, ofTopic, "configs.t", to("segment.ms", "x"), to("retention.ms", "y")),
		"replica of the cluster":         incremental(true, ofBroker, "", to("min.insync.replicas", "1")),
		"replica of the cluster gone":    incremental(true, ofBroker, "", change{remove, "min.insync.replicas", nil}),
		"threads doubled":                incremental(true, ofBroker, "1", to("num.io.threads", "16")),
		"threads more than doubled":      incremental(true, ofBroker, "1", to("num.io.threads", "17")),
		"threads less than half":         incremental(true, ofBroker, "1", to("num.io.threads", "3")),
		"local retention over whole":     incremental(true, ofBroker, "1", to("log.local.retention.ms", "604800001")),
		"reporters":                      incremental(true, ofBroker, "1", to("metric.reporters", "no.such.Class")),
		"legacy topic":                   replacing(true, ofTopic, "configs.t", to("segment.ms", "50000")),
		"legacy topic bad":               replacing(true, ofTopic, "configs.t", to("segment.ms", "x")),
		"legacy topic unknown":           replacing(true, ofTopic, "configs.t", to("no.such", "x")),
		"legacy topic null":              replacing(true, ofTopic, "configs.t", change{set, "segment.ms", nil}),
		"legacy topic twice":             replacing(true, ofTopic, "configs.t", to("segment.ms", "50000"), to("segment.ms", "50001")),
		"legacy no topic":                replacing(true, ofTopic, "nosuch", to("segment.ms", "50000")),
		"legacy broker":                  replacing(true, ofBroker, "1", to("max.connections", "500")),
		"legacy broker bad":              replacing(true, ofBroker, "1", to("max.connections", "x")),
		"legacy broker read-only":        replacing(true, ofBroker, "1", to("node.id", "5")),
		"legacy all brokers":             replacing(true, ofBroker, "", to("max.connections", "500")),
		"legacy all brokers with all":    replacing(true, ofBroker, "", to("max.connections", "500"), to("min.insync.replicas", "1")),
		"legacy another broker":          replacing(true, ofBroker, "7", to("max.connections", "500")),
		"legacy group":                   replacing(true, ofGroup, "g", to("consumer.session.timeout.ms", "50000")),
		"legacy group bad":               replacing(true, ofGroup, "g", to("consumer.session.timeout.ms", "1")),
		"legacy metrics":                 replacing(true, ofClients, "m", to("interval.ms", "5000")),
		"legacy logger":                  replacing(true, ofLogger, "1", to("root", "DEBUG")),
		"legacy type":                    replacing(true, 3, "x", to("a", "b")),
		"legacy nothing":                 replacing(true, ofTopic, "configs.t"),
		"a dead-letter queue of a group": incremental(true, ofGroup, "g", to("errors.deadletterqueue.topic.name", "no such")),
	} {
		b.compare(t, "configs/request/"+name, func(t *testing.T, p *peer) any { return p.verdict(t, req) })
	}
	b.compare(t, "configs/request/denied", func(t *testing.T, p *peer) any {
		seen := map[string]any{}
		for name, req := range map[string]kmsg.Request{
			"broker": incremental(true, ofBroker, "1", to("max.connections", "5")), "another": incremental(true, ofBroker, "7", to("max.connections", "5")),
			"topic": incremental(true, ofTopic, "configs.t", to("segment.ms", "x")), "no topic": incremental(true, ofTopic, "nosuch", to("segment.ms", "x")),
			"group": incremental(true, ofGroup, "g", to("no.such", "x")), "metrics": incremental(true, ofClients, "m", to("interval.ms", "x")), "logger": incremental(true, ofLogger, "1", to("a", "b")),
			"type": incremental(true, 3, "1", to("a", "b")), "null": incremental(true, ofBroker, "1", change{set, "a", nil}), "twice": incremental(true, ofBroker, "1", to("a", "b"), to("a", "b")),
			"legacy broker": replacing(true, ofBroker, "1", to("max.connections", "5")), "legacy topic": replacing(true, ofTopic, "configs.t", to("segment.ms", "x")),
		} {
			resp, err := p.request(t, "alice", req)
			if seen[name] = p.view(resp); err != nil {
				seen[name] = err.Error()
			}
		}
		return seen
	})
}

// altered is one step of a story: a change of one resource, and what a config of it is described as then ("-": none of its own).
type altered struct {
	name    string
	req     kmsg.Request
	key     string
	becomes string
}

// stories tell what alterations leave behind.
func TestAlteredConfigsAreDescribedAlike(t *testing.T) {
	b := shared(t)
	for _, p := range b.peers() {
		p.makeTopics(t, 1, "configs.told")
	}
	story := func(kind kmsg.ConfigResourceType, resource, area string, steps ...altered) {
		for i, s := range steps {
			b.compare(t, fmt.Sprintf("configs/altered/%s/%02d %s", area, i, s.name), func(t *testing.T, p *peer) any {
				seen := []any{p.verdict(t, s.req)}
				p.settled(t, kind, resource, s.key, s.becomes)
				var keys []string
				switch req := s.req.(type) {
				case *kmsg.IncrementalAlterConfigsRequest:
					for _, c := range req.Resources[0].Configs {
						keys = append(keys, c.Name)
					}
				case *kmsg.AlterConfigsRequest:
					for _, c := range req.Resources[0].Configs {
						keys = append(keys, c.Name)
					}
				}
				seen = append(seen, p.configs(t, describing(kind, resource, append(keys, s.key)...)))
				if kind == ofBroker {
					seen = append(seen, p.configs(t, describing(ofBroker, "1", append(keys, s.key)...)))
				}
				return seen
			})
		}
	}
	topic := func(changes ...change) kmsg.Request { return incremental(false, ofTopic, "configs.told", changes...) }
	story(ofTopic, "configs.told", "topic",
		altered{"set", topic(to("segment.ms", "5000"), to("retention.ms", " 60000 ")), "segment.ms", "5000"},
		altered{"append", topic(change{add, "cleanup.policy", new("compact")}), "cleanup.policy", "delete,compact"},
		altered{"append again", topic(change{add, "cleanup.policy", new("compact")}), "cleanup.policy", "delete,compact"},
		altered{"subtract", topic(change{subtract, "cleanup.policy", new("delete")}), "cleanup.policy", "compact"},
		altered{"subtract the last", topic(change{subtract, "cleanup.policy", new("compact")}), "cleanup.policy", ""},
		altered{"set twice the same", topic(to("cleanup.policy", "delete,delete")), "cleanup.policy", "delete"},
		altered{"throttled", topic(change{add, "leader.replication.throttled.replicas", new("0:1,0:2")}), "leader.replication.throttled.replicas", "0:1,0:2"},
		altered{"throttled less", topic(change{subtract, "leader.replication.throttled.replicas", new("0:1")}), "leader.replication.throttled.replicas", "0:2"},
		altered{"bad and good", topic(to("segment.ms", "7000"), to("retention.ms", "x")), "segment.ms", "5000"},
		altered{"upper case", topic(to("preallocate", "TRUE")), "preallocate", "true"},
		altered{"validated", incremental(true, ofTopic, "configs.told", to("segment.ms", "9000")), "segment.ms", "5000"},
		altered{"deleted", topic(change{remove, "segment.ms", nil}), "segment.ms", "-"},
		altered{"deleted again", topic(change{remove, "segment.ms", nil}), "segment.ms", "-"},
		altered{"replaced", replacing(false, ofTopic, "configs.told", to("flush.ms", "1234")), "flush.ms", "1234"},
		altered{"after a replacement", topic(to("max.message.bytes", "1000000"), change{remove, "retention.ms", nil}), "max.message.bytes", "1000000"},
		altered{"replaced by nothing", replacing(false, ofTopic, "configs.told"), "flush.ms", "-"},
	)
	group := func(changes ...change) kmsg.Request { return incremental(false, ofGroup, "configs.g", changes...) }
	story(ofGroup, "configs.g", "group",
		altered{"set", group(to("consumer.session.timeout.ms", "50000"), to("share.isolation.level", "read_committed")), "consumer.session.timeout.ms", "50000"},
		altered{"set what streams have", group(to("streams.num.standby.replicas", "1"), to("streams.rack.aware.assignment.tags", "a,b")), "streams.num.standby.replicas", "1"},
		altered{"out of range", group(to("consumer.session.timeout.ms", "1")), "consumer.session.timeout.ms", "50000"},
		altered{"deleted", group(change{remove, "consumer.session.timeout.ms", nil}, change{remove, "streams.num.standby.replicas", nil}), "consumer.session.timeout.ms", "-"},
		altered{"replaced", replacing(false, ofGroup, "configs.g", to("share.heartbeat.interval.ms", "6000")), "share.heartbeat.interval.ms", "6000"},
		altered{"gone", replacing(false, ofGroup, "configs.g"), "share.heartbeat.interval.ms", "-"},
	)
	metrics := func(changes ...change) kmsg.Request { return incremental(false, ofClients, "configs.m", changes...) }
	story(ofClients, "configs.m", "metrics",
		altered{"set", metrics(to("interval.ms", "5000"), to("metrics", "a,b")), "interval.ms", "5000"},
		altered{"match", metrics(to("match", "client_id=a.*,client_software_name=b")), "match", "client_id=a.*,client_software_name=b"},
		altered{"deleted", metrics(change{remove, "interval.ms", nil}, change{remove, "metrics", nil}, change{remove, "match", nil}), "interval.ms", "-"},
	)
	broker := func(changes ...change) kmsg.Request { return incremental(false, ofBroker, "1", changes...) }
	all := func(changes ...change) kmsg.Request { return incremental(false, ofBroker, "", changes...) }
	story(ofBroker, "", "all brokers",
		altered{"set", all(to("max.connections", "5000"), to("log.cleaner.io.max.bytes.per.second", "1e6")), "max.connections", "5000"},
		altered{"of a listener", all(to("listener.name.ssl.max.connections", "4000"), to("listener.name.nosuch.max.connections", "7")), "listener.name.ssl.max.connections", "4000"},
		altered{"custom", all(to("no.such.config", "secret")), "no.such.config", "null"},
	)
	story(ofBroker, "1", "broker",
		altered{"over that of all", broker(to("max.connections", "4500")), "max.connections", "4500"},
		altered{"units", broker(to("log.retention.ms", "86400000"), to("log.roll.ms", "3600000")), "log.retention.ms", "86400000"},
		altered{"a list", broker(to("log.cleanup.policy", "compact,delete")), "log.cleanup.policy", "compact,delete"},
		altered{"a list less", broker(change{subtract, "log.cleanup.policy", new("compact")}), "log.cleanup.policy", "delete"},
		altered{"blanks", broker(to("num.recovery.threads.per.data.dir", " 3 "), to("message.max.bytes", " 1000000")), "message.max.bytes", "1000000"},
		altered{"of a listener", broker(to("listener.name.ssl.max.connections", "3000")), "listener.name.ssl.max.connections", "3000"},
		altered{"a secret", broker(to("listener.name.nosuch.ssl.key.password", "secret")), "listener.name.nosuch.ssl.key.password", "null"},
		altered{"custom", broker(to("no.such.config", "mine")), "no.such.config", "null"},
		altered{"overrides", broker(to("max.connections.per.ip.overrides", "10.0.0.1:5, localhost:60000")), "max.connections.per.ip.overrides", "10.0.0.1:5, localhost:60000"},
		altered{"refused", broker(to("max.connections", "0")), "max.connections", "4500"},
		altered{"validated", incremental(true, ofBroker, "1", to("max.connections", "4400")), "max.connections", "4500"},
		altered{"deleted", broker(change{remove, "max.connections", nil}), "max.connections", "-"},
		altered{"replaced", replacing(false, ofBroker, "1", to("background.threads", "12")), "background.threads", "12"},
		altered{"after a replacement", broker(to("background.threads", "11"), change{remove, "log.retention.ms", nil}), "background.threads", "11"},
		altered{"gone", replacing(false, ofBroker, "1"), "background.threads", "-"},
	)
	story(ofBroker, "", "all brokers again",
		altered{"deleted", all(change{remove, "max.connections", nil}, change{remove, "log.cleaner.io.max.bytes.per.second", nil}), "max.connections", "-"},
		altered{"rest", all(change{remove, "listener.name.ssl.max.connections", nil}, change{remove, "listener.name.nosuch.max.connections", nil}, change{remove, "no.such.config", nil}), "no.such.config", "-"},
	)
}
