package netlab

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/brokerlab/brokerlab/internal/testenv"
	"github.com/brokerlab/brokerlab/netlab/kafkahome"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

func TestKafkaOfAShortFileGetsWhatABrokerGets(t *testing.T) {
	t.Parallel()
	got := prepared(t, "nodes: {k: {kind: kafka, expose: [29092]}}\nusers: {eve: {}}", "/k.sock")
	want := map[string]string{
		"process.roles":                    "broker,controller",
		"node.id":                          "1",
		"controller.quorum.voters":         "1@localhost:9990",
		"controller.listener.names":        "LAB_CONTROLLERS",
		"inter.broker.listener.name":       "LAB_BROKERS",
		"listeners":                        "PLAINTEXT://:9092,SSL://:9093,SASL_PLAINTEXT://:9094,SASL_SSL://:9095,EXPOSED_29092://:29092,LAB_BROKERS://localhost:9991,LAB_CONTROLLERS://localhost:9990",
		"advertised.listeners":             "PLAINTEXT://k:9092,SSL://k:9093,SASL_PLAINTEXT://k:9094,SASL_SSL://k:9095,EXPOSED_29092://127.0.0.1:29092,LAB_BROKERS://localhost:9991",
		"listener.security.protocol.map":   "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,EXPOSED_29092:PLAINTEXT,LAB_BROKERS:SSL,LAB_CONTROLLERS:SSL",
		"super.users":                      "User:admin;User:CN=k",
		"max.connections.per.ip.overrides": "127.0.0.1:2147483647",
		"listener.name.sasl_plaintext.plain.sasl.jaas.config": `org.apache.kafka.common.security.plain.PlainLoginModule required user_eve="eve-secret";`,
		"ssl.keystore.location":                               "HOME/tls/node-k.pem",
	}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s = %q, want %q", key, got[key], value)
		}
	}
	if value, there := got["kernel.accounting"]; there {
		t.Errorf("kernel.accounting = %q: Kafka has no such config", value)
	}
}

func TestNodesOfOneClusterAreItsVoters(t *testing.T) {
	t.Parallel()
	got := prepared(t, `
nodes:
  a: {kind: kafka, cluster: c, addresses: [10.0.0.1, "fd00::1"], listeners: PLAINTEXT://:9990, config: {super.users: User:root, max.connections.per.ip.overrides: "10.0.0.1:7"}}
  b: {kind: kafka, cluster: c, addresses: 10.0.0.2}
  other: {kind: kafka}
`, "")
	want := map[string]string{
		"controller.quorum.voters":         "1@a:9991,2@b:9990",
		"listeners":                        "PLAINTEXT://:9990,LAB_BROKERS://:9992,LAB_CONTROLLERS://:9991",
		"advertised.listeners":             "PLAINTEXT://a:9990,LAB_BROKERS://a:9992",
		"super.users":                      "User:root;User:CN=a;User:CN=b",
		"max.connections.per.ip.overrides": "10.0.0.1:7,FD00::1:2147483647,10.0.0.2:2147483647",
		"offsets.topic.replication.factor": "2",
	}
	for key, value := range want {
		if got[strings.ToLower(key)] != value {
			t.Errorf("%s = %q, want %q", key, got[key], value)
		}
	}
}

func TestPropertiesOfClientsLeadToOneCluster(t *testing.T) {
	t.Parallel()
	lab, err := topology.Parse("lab.yaml", []byte("name: x\nusers: {eve: {}}\nnodes: {a: {kind: kafka, cluster: c}, b: {kind: broker}, c: {kind: kafka, cluster: c}, d: {kind: kafka}}"))
	if err != nil {
		t.Fatal(err)
	}
	h := home(t.TempDir())
	if err := h.writeClientProperties(lab); err != nil {
		t.Fatal(err)
	}
	if got := string(file(t, h.properties("SSL", "eve"))); !strings.HasPrefix(got, "bootstrap.servers=a:9093,c:9093\n") {
		t.Errorf("eve.properties = %s, want the servers of the first node's cluster alone", got)
	}
}

func TestANodesOwnJavaRunsItsKafka(t *testing.T) {
	java, folder := t.TempDir(), t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "libs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "libs", "kafka_2.13-"+kafkahome.Default+".jar"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	lab := resolved(t, "\nnodes: {kafka1: {kind: kafka, home: "+folder+", env: {JAVA_HOME: "+java+"}}}\n")
	p, err := kafkaKind{}.command(home(t.TempDir()), &state{Lab: lab}, &lab.Nodes[0])
	if err != nil || p.args[0] != filepath.Join(java, "bin", "java") {
		t.Fatalf("command = %v, %v, want the java of the node's JAVA_HOME", p.args, err)
	}
	first, err := p.before()
	if err != nil || len(first) != 1 || first[0][0] != p.args[0] {
		t.Errorf("before = %v, %v, want the same java", first, err)
	}
	if _, err := withKafka(lab); err == nil || !strings.Contains(err.Error(), java) {
		t.Errorf("withKafka = %v, want that there is no java in %s", err, java)
	}
}

// needKafka skips t where there is no Kafka to run.
func needKafka(t *testing.T) {
	t.Helper()
	testenv.NeedRoot(t)
	if _, err := kafkahome.Find(kafkahome.Default); err != nil {
		t.Skip(err)
	}
	if err := kafkahome.CheckJava(); err != nil {
		t.Skip(err)
	}
}

// patient is a context for what Java does on a machine that does much else.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestApacheKafkaServesALabsUsersAndKeepsItsData(t *testing.T) {
	needKafka(t)
	lab, err := Up(patient(t), resolved(t, `
nodes:
  kafka1:
    kind: kafka
    env: {KAFKA_HEAP_OPTS: -Xmx256m, KAFKA_JVM_PERFORMANCE_OPTS: -XX:+UseSerialGC -XX:TieredStopAtLevel=1}
    config: {authorizer.class.name: org.apache.kafka.metadata.authorizer.StandardAuthorizer, max.connections.per.ip: 10}
subnets: {office: {cidr: [10.1.0.0/24, "fd00:1::/64"]}}
`), Options{})
	if err != nil {
		t.Fatalf("Up = %v, want nil", err)
	}
	defer lower(t, lab)
	node := lab.Nodes()[0]
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(lab.CAFile())
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		t.Fatalf("read the CA: %v", err)
	}
	cert, err := tls.LoadX509KeyPair(lab.UserPEM("admin"), lab.UserPEM("admin"))
	if err != nil {
		t.Fatal(err)
	}
	password := kgo.SASL(plain.Auth{User: "admin", Pass: "admin-secret"}.AsMechanism())
	salted := kgo.SASL(scram.Auth{User: "admin", Pass: "admin-secret"}.AsSha512Mechanism())
	ask := func(listener, source string, secure *tls.Config, login ...kgo.Opt) []kgo.Opt {
		port, unknown := node.Port(listener)
		if unknown != nil {
			t.Fatal(unknown)
		}
		dial := lab.Subnets()[0].Dialer(netip.MustParseAddr(source))
		return append(login, kgo.SeedBrokers("kafka1:"+itoa(int(port))), kgo.DefaultProduceTopic("t"), kgo.AllowAutoTopicCreation(),
			kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				c, failed := dial(ctx, network, address)
				if failed != nil || secure == nil {
					return c, failed
				}
				return tls.Client(c, secure), nil
			}))
	}
	secure := &tls.Config{RootCAs: roots, ServerName: "kafka1", MinVersion: tls.VersionTLS12}
	certified := secure.Clone()
	certified.Certificates = []tls.Certificate{cert}
	produceAndConsume(t, 1, ask("SASL_PLAINTEXT", "10.1.0.7", nil, password))
	produceAndConsume(t, 2, ask("SASL_PLAINTEXT", "fd00:1::8", nil, salted))
	produceAndConsume(t, 3, ask("SSL", "fd00:1::9", certified))
	produceAndConsume(t, 4, ask("SASL_SSL", "10.1.0.10", secure, salted))
	if err = errors.Join(node.Kill(patient(t)), node.Start(patient(t))); err != nil {
		t.Fatal(err)
	}
	produceAndConsume(t, 5, ask("SASL_PLAINTEXT", "10.1.0.7", nil, password))
	log, err := os.ReadFile(node.LogPath())
	if err != nil || strings.Count(string(log), kafkaServes) != 2 || strings.Contains(string(log), "storedKey") {
		t.Errorf("the log, %v, does not have %q twice, or has credentials", err, kafkaServes)
	}
	status, err := node.Status(patient(t))
	if err != nil || status.Version != kafkahome.Default {
		t.Errorf("version = %q, %v, want %s", status.Version, err, kafkahome.Default)
	}
	// Nobody is left behind where the owner was killed: lower looks.
	st, err := lab.Inspect(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(st.OwnerPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// produceAndConsume writes one more record, and reads all that there are then.
func produceAndConsume(t *testing.T, total int, options []kgo.Opt) {
	t.Helper()
	client, err := kgo.NewClient(append(options, kgo.DisableClientMetrics())...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx := patient(t)
	if err := client.ProduceSync(ctx, kgo.StringRecord("hello")).FirstErr(); err != nil {
		t.Fatalf("produce record %d: %v", total, err)
	}
	for n := 0; n < total; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("consume %d records: %v", total, err)
		}
		n += fetches.NumRecords()
	}
}
