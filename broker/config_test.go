package broker_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/broker"
)

const stores = "internal/keystore/testdata/"

// withTLS makes a listener of TLS possible.
const withTLS = "ssl.keystore.type=PKCS12\nssl.keystore.location=" + stores + "server.p12\nssl.keystore.password=changeit\n"

const plainUsers = `listener.name.%s.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";`

func jaasOf(listener string) string { return strings.ReplaceAll(plainUsers, "%s", listener) + "\n" }

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func load(t *testing.T, text string, overrides ...string) *broker.Config {
	t.Helper()
	c, err := broker.LoadConfig(write(t, text), overrides, false)
	if err != nil {
		t.Fatalf("LoadConfig of\n%s= %v", text, err)
	}
	return c
}

func TestWithoutAFileTheDefaultsAreKafkas(t *testing.T) {
	t.Parallel()
	c, err := broker.LoadConfig("", nil, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Listeners) != 1 || c.Listeners[0].Name != "PLAINTEXT" || c.Listeners[0].Host != "" || c.Listeners[0].Port != 9092 || c.Listeners[0].Threads != 3 {
		t.Errorf("Listeners = %+v, want PLAINTEXT://:9092 with 3 threads", c.Listeners)
	}
	if c.NumIOThreads != 8 || c.Backlog != 50 || c.MaxRequestBytes != 104857600 || c.IdleTimeout != 10*time.Minute || c.FailedAuthDelay != 100*time.Millisecond ||
		!c.AutoCreateTopics || c.NumPartitions != 1 || c.SyncWrites || len(c.LogDirs) != 0 || !c.APIsEnabled || c.ListClientConnectionsKey != 93 ||
		c.KernelAccounting != "auto" || c.InterBrokerListener != "PLAINTEXT" || c.DefaultReplicationFactor != 1 {
		t.Errorf("LoadConfig = %+v", c)
	}
	if len(c.Warnings)+len(c.Ignored) != 0 {
		t.Errorf("warnings %q, ignored %q, want none", c.Warnings, c.Ignored)
	}
}

func TestAServerPropertiesOfKafkaInCombinedModeIsUsable(t *testing.T) {
	t.Parallel()
	c := load(t, `# The role of this server.
process.roles=broker,controller
node.id=7
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
offsets.topic.replication.factor=1
log.retention.hours=168
log.retention.check.interval.ms=300000
listener.name.controller.ssl.client.auth=required
`)
	if c.NodeID != 7 || len(c.Listeners) != 1 || c.Listeners[0].AdvertisedHost != "localhost" || c.LogDirs[0] != "/tmp/kraft-combined-logs" {
		t.Errorf("LoadConfig = %+v", c)
	}
	for _, key := range []string{"controller.quorum.bootstrap.servers", "log.retention.check.interval.ms", "socket.send.buffer.bytes", "listener.name.controller.ssl.client.auth"} {
		if !slices.Contains(c.Ignored, key) {
			t.Errorf("%s is not among the ignored: %q", key, c.Ignored)
		}
	}
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "CONTROLLER") || !strings.HasPrefix(c.Warnings[0], "server.properties:5: listeners: ") {
		t.Errorf("Warnings = %q, want one about CONTROLLER", c.Warnings)
	}
}

func TestAllProblemsAreReportedAtOnceWithTheirPlace(t *testing.T) {
	t.Parallel()
	_, err := broker.LoadConfig(write(t, `
node.id=x
listeners=EXTERNAL://:9092,\
   EXTERNAL://:9093,nonsense
num.io.threads=0
ssl.client.auth=maybe
authorizer.class.name=kafka.security.authorizer.AclAuthorizer
`), []string{"num.network.threads=none", "kernel.accounting"}, false)
	want := []string{
		`server.properties:2: node.id: x: Not a number of type INT (allowed: from 0)`,
		`server.properties:6: ssl.client.auth: maybe: String must be one of: required, requested, none`,
		`server.properties:3: listeners: each listener must have a different name, but there are two of EXTERNAL`,
		`server.properties:3: listeners: unable to parse "nonsense": expected NAME://host:port, IPv6 addresses in brackets`,
		`server.properties: listener.security.protocol.map: no security protocol defined for listener EXTERNAL`,
		`server.properties:5: num.io.threads: 0: Value must be at least 1`,
		`server.properties:7: authorizer.class.name: "kafka.security.authorizer.AclAuthorizer" is not supported (allowed: empty, org.apache.kafka.metadata.authorizer.StandardAuthorizer, brokerlab)`,
		`-o: num.network.threads: none: Not a number of type INT`,
		`-o: kernel.accounting: expected key=value`,
	}
	for _, w := range want {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error does not say %q:\n%v", w, err)
		}
	}
	if _, ok := errors.AsType[*broker.PropertyError](err); !ok {
		t.Errorf("error %T holds no *PropertyError", err)
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	sasl := "listeners=SASL_PLAINTEXT://:9092\n"
	for _, c := range []struct{ what, text, want string }{
		{"the default mechanism", sasl, "would offer GSSAPI, the default, which is not supported"},
		{"GSSAPI", sasl + "sasl.enabled.mechanisms=GSSAPI", "sasl.enabled.mechanisms: GSSAPI is not supported (allowed: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512)"},
		{"OAUTHBEARER", sasl + "sasl.enabled.mechanisms=PLAIN,OAUTHBEARER\n" + jaasOf("sasl_plaintext"), "OAUTHBEARER is not supported"},
		{"PLAIN without users", sasl + "sasl.enabled.mechanisms=PLAIN", "listener.name.sasl_plaintext.plain.sasl.jaas.config: PLAIN on listener SASL_PLAINTEXT has no users"},
		{"no mechanism", sasl + "sasl.enabled.mechanisms=", "needs a mechanism"},
		{"JAAS without an end", sasl + "sasl.enabled.mechanisms=PLAIN\nplain.sasl.jaas.config=a required", "plain.sasl.jaas.config: JAAS config entry not terminated by semi-colon"},
		{"a password badly quoted", sasl + "sasl.enabled.mechanisms=PLAIN\nplain.sasl.jaas.config=a required user_a=\"x\"s3cr3t\";", "Value not specified for key '…' in JAAS config"},
		{"a user without a password", sasl + "sasl.enabled.mechanisms=PLAIN\nplain.sasl.jaas.config=a required user_a;", "Value not specified for key 'user_a' in JAAS config"},
		{"two modules", sasl + "sasl.enabled.mechanisms=PLAIN\nplain.sasl.jaas.config=a required; b required;", "2 login modules, should be 1 module"},
		{"another module", sasl + "sasl.enabled.mechanisms=PLAIN\nplain.sasl.jaas.config=a required;", "login module a is not supported for PLAIN"},
		{"negative reauth", sasl + "sasl.enabled.mechanisms=SCRAM-SHA-256\nconnections.max.reauth.ms=-5", "connections.max.reauth.ms: -5 must not be negative"},
		{"TLS without a key store", "listeners=SSL://:9093", "ssl.keystore.location: listener SSL: a key store is needed"},
		{"a key store that is not there", "listeners=SSL://:9093\nssl.keystore.location=/nowhere/x.jks\nssl.keystore.password=p", "server.properties:2: ssl.keystore.location: /nowhere/x.jks: no such file or directory"},
		{"a wrong password", "listeners=SSL://:9093\nlistener.name.ssl.ssl.keystore.location=" + stores + "server.jks\nssl.keystore.password=wrong", "server.properties:2: listener.name.ssl.ssl.keystore.location: " + stores + "server.jks: wrong password"},
		{"mapping rules", "listeners=SSL://:9093\n" + withTLS + "ssl.principal.mapping.rules=RULE:.*/x", "ssl.principal.mapping.rules: Invalid rule: `RULE:.*/x`, unmatched substring: `RULE:.*/x`"},
		{"look-around", "listeners=SSL://:9093\n" + withTLS + "ssl.principal.mapping.rules=RULE:(?=a)/x/", "look-around"},
		{"a port twice", "listeners=A://:9092,B://:9092\nlistener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT", "A, B have the same port 9092"},
		{"two IPv4 addresses", "listeners=A://127.0.0.1:9092,B://127.0.0.2:9092\nlistener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT", "A, B have the same port 9092"},
		{"a port out of range", "listeners=PLAINTEXT://:70000", "port 70000 is out of range (allowed: 0 to 65535)"},
		{"a negative port", "listeners=PLAINTEXT://:-1", "port -1 is out of range"},
		{"no listener", "listeners=", "listeners: Configuration 'listeners' must not be empty."},
		{"only a controller", "listeners=CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER", "no listener for clients"},
		{"a controller's file", "process.roles=controller", "process.roles: this is a controller's configuration"},
		{"another role", "process.roles=zookeeper", "process.roles: zookeeper: String must be one of: broker, controller"},
		{"advertised 0.0.0.0", "advertised.listeners=PLAINTEXT://0.0.0.0:9092", "0.0.0.0 cannot be advertised"},
		{"listening at 0.0.0.0 unadvertised", "listeners=PLAINTEXT://0.0.0.0:9092", "0.0.0.0: advertise a routable address"},
		{"advertised but not listening", "advertised.listeners=SSL://h:9092", "advertised.listeners: SSL is not in listeners (allowed: PLAINTEXT)"},
		{"unknown protocol", "listeners=A://:9092\nlistener.security.protocol.map=A:TLS", `invalid security protocol "TLS" of listener A (allowed: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)`},
		{"odd map", "listener.security.protocol.map=PLAINTEXT", `unable to parse "PLAINTEXT"`},
		{"inter broker twice", "inter.broker.listener.name=PLAINTEXT\nsecurity.inter.broker.protocol=PLAINTEXT", "only one of"},
		{"inter broker nowhere", "inter.broker.listener.name=INTERNAL", "inter.broker.listener.name: INTERNAL is none of the advertised listeners (allowed: PLAINTEXT)"},
		{"inter broker unadvertised", "listeners=A://:1,B://:2\nlistener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT\nadvertised.listeners=A://h:1\ninter.broker.listener.name=B", "B is none of the advertised listeners (allowed: A)"},
		{"broker.id", "node.id=1\nbroker.id=2", "node.id and broker.id must be the same"},
		{"principal builder", "principal.builder.class=com.example.Mine", "principal builder of one's own is not supported"},
		{"principal builder of a listener", "listener.name.plaintext.principal.builder.class=com.example.Mine", "principal builder of one's own is not supported"},
		{"nobody let in by mistake", "max.connections.per.ip=0", "requirement failed: max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."},
		{"a negative limit", "max.ssl.connections=-1", "max.ssl.connections: -1: Value must be at least 0"},
		{"a limit of a listener that is none", "listener.name.plaintext.max.connections=many", "listener.name.plaintext.max.connections: many: Not a number of type INT"},
		{"a rate beyond all numbers", "max.connection.creation.rate=2147483648", "max.connection.creation.rate: "},
		{"no samples", "quota.window.num=0", "quota.window.num: 0: Value must be at least 1"},
		{"no time", "quota.window.size.seconds=0", "quota.window.size.seconds: 0: Value must be at least 1"},
		{"overrides of an unknown host", "max.connections.per.ip.overrides=127.0.0.1:1,no-such-host.invalid:5", "max.connections.per.ip.overrides: unknown host: no-such-host.invalid"},
		{"overrides without a count", "max.connections.per.ip.overrides=localhost", "max.connections.per.ip.overrides: Error parsing configuration property 'max.connections.per.ip.overrides': begin 0, end -1, length 9"},
		{"overrides with a strange host", "max.connections.per.ip.overrides=[::1]:3", "max.connections.per.ip.overrides contains invalid addresses : [::1]"},
		{"delegation tokens", "delegation.token.secret.key=s3cr3t", "delegation.token.secret.key: delegation tokens are not supported"},
		{"callback handler", "listener.name.plaintext.plain.sasl.server.callback.handler.class=com.example.X", "others would get in"},
		{"engine factory", "ssl.engine.factory.class=com.example.X", "others would get in"},
		{"trust manager", "ssl.trustmanager.algorithm=TrustAll", `trust manager "TrustAll" is not supported`},
		{"config provider", "config.providers=file\nnum.io.threads=8\nsuper.users=${file:/x:y}", "configuration provider"},
		{"super users", "super.users=User:a;bob", "expected a string in format principalType:principalName but got bob"},
		{"delay and idle", "connections.max.idle.ms=50", "100 must be less than connections.max.idle.ms, which is 50"},
		{"idle at once", "connections.max.idle.ms=0", "0 would close every connection at once"},
		{"metadata version", "metadata.version=9.9", "metadata.version: "},
		{"kernel accounting", "kernel.accounting=yes", `kernel.accounting: "yes" is not one of auto, require, off, lab:<socket>`},
		{"metrics listener", "metrics.listener=9404", `metrics.listener: "9404" is no host:port`},
		{"list key", "list.client.connections.api.key=70000", "list.client.connections.api.key: "},
		{"boolean", "brokerlab.apis.enable=yes", "brokerlab.apis.enable: yes: expected true or false"},
		{"escape", `node.id=\u12`, "server.properties:1: syntax: "},
	} {
		_, err := broker.LoadConfig(write(t, c.text), nil, false)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: LoadConfig = %v, want %q", c.what, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: the error shows a secret: %v", c.what, err)
		}
	}
}

func TestUnknownKeysAreWarnedOfWithTheNearestName(t *testing.T) {
	t.Parallel()
	text := "num.io.treads=8\nlistener.name.plaintext.ssl.keystore.locatoin=/x\nmetrics.listner=\nwholly.different=1\n"
	want := []string{
		"server.properties:1: num.io.treads: unknown property; did you mean num.io.threads?",
		"server.properties:2: listener.name.plaintext.ssl.keystore.locatoin: unknown property; did you mean listener.name.plaintext.ssl.keystore.location?",
		"server.properties:3: metrics.listner: unknown property; did you mean metrics.listener?",
		"server.properties:4: wholly.different: unknown property",
	}
	c := load(t, text)
	slices.Sort(c.Warnings)
	if !slices.Equal(c.Warnings, want) {
		t.Errorf("Warnings = %q, want %q", c.Warnings, want)
	}
	_, err := broker.LoadConfig(write(t, text), nil, true)
	for _, w := range want {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("strict: error does not say %q: %v", w, err)
		}
	}
}

func TestKeysWithoutEffectAreWarnedOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"listener.name.plaintext.connections.max.idle.ms=5": "connections.max.idle.ms cannot be set for one listener",
		"listener.name.other.num.network.threads=5":         "there is no listener OTHER",
		"listener.name.PLAINTEXT.num.network.threads=5":     "must be in lower case",
		"sasl.jaas.config=a required;":                      "the mechanism must stand before it",
		"delete.topic.enable=false":                         "topics can be deleted",
		"create.topic.policy.class.name=com.example":        "nothing is refused by policy",
		"default.replication.factor=3":                      "3 is not possible with one broker",
		"node.id=1\nnode.id=2":                              "given before at server.properties:1",
		"listeners=SASL_SSL://:9093\nsasl.enabled.mechanisms=SCRAM-SHA-256\nssl.client.auth=required\n" + withTLS: "only listener.name.sasl_ssl.ssl.client.auth counts",
	} {
		c := load(t, text)
		if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], want) {
			t.Errorf("%q: Warnings = %q, want %q", text, c.Warnings, want)
		}
	}
}

func TestListeners(t *testing.T) {
	t.Parallel()
	c := load(t, `listeners=external://[::1]:9092,INTERNAL://127.0.0.1:9092,DUAL://:0,CLIENTS://host.example:9095
listener.security.protocol.map=EXTERNAL:ssl,INTERNAL:PLAINTEXT,DUAL:SASL_PLAINTEXT,CLIENTS:SASL_SSL
advertised.listeners=EXTERNAL://[2001:db8::1]:19092,clients://public.example:443,INTERNAL://127.0.0.1:9092
inter.broker.listener.name=internal
num.network.threads=2
listener.name.external.num.network.threads=5
listener.name.external.ssl.client.auth=required
listener.name.clients.ssl.client.auth=requested
listener.name.clients.ssl.keystore.type=PEM
listener.name.clients.ssl.keystore.location=`+stores+`server.pem
listener.name.external.ssl.principal.mapping.rules=RULE:^CN=(.*?),.*$/$1/L
ssl.keystore.location=`+stores+`server.jks
listener.name.external.ssl.keystore.password=changeit
sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.dual.sasl.enabled.mechanisms=PLAIN, SCRAM-SHA-256
connections.max.reauth.ms=60000
listener.name.dual.plain.connections.max.reauth.ms=1000
listener.name.clients.connections.max.reauth.ms=0
sasl.server.max.receive.size=1000
`+jaasOf("dual"))
	if len(c.Listeners) != 4 || c.InterBrokerListener != "INTERNAL" {
		t.Fatalf("LoadConfig = %+v", c)
	}
	external, internal, dual, clients := c.Listeners[0], c.Listeners[1], c.Listeners[2], c.Listeners[3]
	if external.Name != "EXTERNAL" || external.Protocol != broker.SSL || external.Host != "::1" || external.AdvertisedHost != "2001:db8::1" || external.AdvertisedPort != 19092 || external.Threads != 5 || external.TLS == nil {
		t.Errorf("EXTERNAL = %+v", external)
	}
	if name, err := external.Principals.Map("CN=Alice,O=x"); err != nil || name != "alice" {
		t.Errorf("EXTERNAL maps to %q, %v, want alice", name, err)
	}
	if internal.Host != "127.0.0.1" || internal.Port != 9092 || internal.AdvertisedHost != "127.0.0.1" || internal.AdvertisedPort != 9092 || internal.Threads != 2 || internal.TLS != nil {
		t.Errorf("INTERNAL = %+v", internal)
	}
	if dual.Host != "" || dual.Port != 0 || dual.AdvertisedHost != "" || !slices.Equal(dual.Mechanisms, []string{"PLAIN", "SCRAM-SHA-256"}) || dual.Plain["alice"] != "alice-secret" ||
		dual.MaxReauth["PLAIN"] != time.Second || dual.MaxReauth["SCRAM-SHA-256"] != time.Minute || dual.MaxAuthFrame != 1000 {
		t.Errorf("DUAL = %+v", dual)
	}
	if clients.AdvertisedHost != "public.example" || clients.AdvertisedPort != 443 || len(clients.MaxReauth) != 0 || !slices.Equal(clients.Mechanisms, []string{"SCRAM-SHA-512"}) || clients.TLS == nil {
		t.Errorf("CLIENTS = %+v", clients)
	}
	if len(c.Warnings)+len(c.Ignored) != 0 {
		t.Errorf("warnings %q, ignored %q, want none", c.Warnings, c.Ignored)
	}
}

func TestOverridesWinAndAreTrimmed(t *testing.T) {
	t.Parallel()
	c := load(t, "node.id=1\nlog.flush.interval.messages = 1 \nsuper.users = User:a ; User:CN=b,O=c;\n", "node.id = 5", "listeners=PLAINTEXT://127.0.0.1:0", "kernel.accounting=lab:/run/x", "metrics.listener=127.0.0.1:9404")
	if c.NodeID != 5 || !c.SyncWrites || !slices.Equal(c.SuperUsers, []string{"User:CN=b,O=c", "User:a"}) || c.KernelAccounting != "lab:/run/x" || c.Listeners[0].Port != 0 || c.Properties["node.id"] != "5" {
		t.Errorf("LoadConfig = %+v", c)
	}
}

func TestTheReferenceNamesEveryPropertyOnce(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := broker.ConfigReference(&b); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"node.id", "listeners", "ssl.keystore.location", "kernel.accounting", "sasl.jaas.config", "super.users", "metadata.version"} {
		if n := strings.Count(b.String(), "\n### "+key+"\n"); n != 1 {
			t.Errorf("the reference has %d entries of %s, want 1", n, key)
		}
	}
}

// Whatever the file says, loading ends with a configuration that has a listener or with an error.
func FuzzLoadConfig(f *testing.F) {
	f.Add("node.id=1\nlisteners=PLAINTEXT://:9092\n")
	f.Add("listeners=SASL_PLAINTEXT://[::1]:0\nsasl.enabled.mechanisms=PLAIN\nplain.sasl.jaas.config=a\\\n required;")
	f.Add("a\\\n\\u0041:b\n#c\\\n!d")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := broker.LoadConfig(write(t, text), nil, false)
		if err == nil && len(c.Listeners) == 0 {
			t.Fatalf("no listener and no error from %q", text)
		}
	})
}
