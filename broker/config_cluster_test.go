package broker_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/broker"
)

func TestABrokerIsAloneUnlessItIsToldOfAnEngine(t *testing.T) {
	t.Parallel()
	c := load(t, "node.id=1\n")
	if c.Engine != nil || c.Metadata != nil || c.MetadataTopic != broker.DefaultMetadataTopic || c.Heartbeat != 2*time.Second || c.Session != 9*time.Second {
		t.Errorf("LoadConfig = %+v, want no engine and no log by address, and Kafka's intervals", c)
	}
}

func TestTheMetadataLogIsWithTheEngineUnlessItIsSaidWhere(t *testing.T) {
	t.Parallel()
	const engine = "engine.bootstrap.servers=a:1, [::1]:2\nengine.security.protocol=SASL_PLAINTEXT\nengine.sasl.mechanism=PLAIN\n" +
		`engine.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";` + "\n"
	c := load(t, engine)
	if c.Engine == nil || !slices.Equal(c.Engine.Servers, []string{"a:1", "[::1]:2"}) || c.Engine.Client.Security.Username != "u" || c.Metadata != c.Engine {
		t.Fatalf("engine %+v, metadata %+v, want both at a:1 as u", c.Engine, c.Metadata)
	}
	if len(c.Warnings) != 0 {
		t.Errorf("Warnings = %q, want none", c.Warnings)
	}
	c = load(t, engine+"metadata.bootstrap.servers=b:3\nmetadata.security.protocol=SSL\nmetadata.topic=ours\n")
	if c.Metadata == nil || c.Metadata.Servers[0] != "b:3" || c.Metadata.Client.Security.Protocol != "SSL" || c.MetadataTopic != "ours" {
		t.Errorf("metadata %+v in %q, want it at b:3 over TLS", c.Metadata, c.MetadataTopic)
	}
	if c = load(t, engine+"metadata.bootstrap.servers=\n"); c.Metadata != nil {
		t.Errorf("metadata %+v, want a log of its own", c.Metadata)
	}
}

func TestAnOlderBrokersNewClusterIsNoHigherThanItGoes(t *testing.T) {
	t.Parallel()
	if c := load(t, "supported.metadata.version.max=4.3\n"); c.MetadataVersion != "4.3-IV0" || c.SupportedLevel != 30 {
		t.Errorf("LoadConfig = level %s, at most %d, want 4.3-IV0 and 30", c.MetadataVersion, c.SupportedLevel)
	}
	if c := load(t, ""); c.MetadataVersion != "4.4-IV2" || c.SupportedLevel != 33 {
		t.Errorf("LoadConfig = level %s, at most %d, want 4.4-IV2 and 33", c.MetadataVersion, c.SupportedLevel)
	}
}

func TestWhatIsWrongWithAClustersKeysIsSaidAtOnceWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	_, err := broker.LoadConfig(write(t, `
engine.bootstrap.servers=nowhere,b:0
engine.security.protocol=SASL_SSL
engine.sasl.mechanism=PLAIN
engine.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="sesam" open;
engine.ssl.truststore.location=/missing.p12
engine.ssl.truststore.type=PKCS12
engine.ssl.truststore.password=sesam
metadata.topic=a topic
broker.heartbeat.interval.ms=9000
broker.session.timeout.ms=9000
supported.metadata.version.max=5.0
`), nil, false)
	for _, w := range []string{
		`server.properties:2: engine.bootstrap.servers: "nowhere" is no host:port`,
		`server.properties:2: engine.bootstrap.servers: "b:0" is no host:port`,
		`server.properties:5: engine.sasl.jaas.config: `,
		`server.properties:6: engine.ssl.truststore.location: /missing.p12: `,
		`server.properties:9: metadata.topic: "a topic" has characters that no topic has`,
		`server.properties:10: broker.heartbeat.interval.ms: 9000 must be less than broker.session.timeout.ms, which is 9000`,
		`server.properties:12: supported.metadata.version.max: Unknown metadata.version '5.0'`,
	} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error does not say %q:\n%v", w, err)
		}
	}
	if err != nil && strings.Contains(err.Error(), "sesam") {
		t.Errorf("error tells a password: %v", err)
	}
	for text, want := range map[string]string{
		"metadata.bootstrap.servers=a:1":                               "metadata.bootstrap.servers: brokers that share their metadata share their data: set engine.bootstrap.servers too",
		"metadata.version=4.4-IV2\nsupported.metadata.version.max=4.3": "metadata.version: 4.4-IV2 is above supported.metadata.version.max, which is 4.3-IV0",
	} {
		if _, err := broker.LoadConfig(write(t, text), nil, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("LoadConfig of %q = %v, want %q", text, err, want)
		}
	}
}

func TestClientPropertiesWithoutServersAndUnknownOnesAreWarnedOf(t *testing.T) {
	t.Parallel()
	c := load(t, "engine.ssl.truststore.type=PEM\n")
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "engine.ssl.truststore.type: has no effect without engine.bootstrap.servers") {
		t.Errorf("Warnings = %q, want one", c.Warnings)
	}
	c = load(t, "engine.bootstrap.servers=a:1\nengine.ssl.trustore.type=PEM\n")
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "engine.ssl.trustore.type means nothing here; did you mean ssl.truststore.type?") {
		t.Errorf("Warnings = %q, want one", c.Warnings)
	}
}
