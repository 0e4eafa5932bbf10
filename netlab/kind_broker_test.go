package netlab

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/magiconair/properties"

	"github.com/brokerlab/brokerlab/netlab/topology"
)

// prepared gives the server.properties of the first node of a lab file.
func prepared(t *testing.T, text, kernel string) map[string]string {
	t.Helper()
	lab, err := topology.Parse("lab.yaml", []byte("name: x\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	h := home(t.TempDir())
	k, err := kindOf(lab.Nodes[0].Kind)
	if err != nil {
		t.Fatal(err)
	}
	err = k.prepare(h, &state{Lab: lab}, &lab.Nodes[0], kernel)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(h.path("nodes", lab.Nodes[0].Name, "server.properties"))
	if err != nil {
		t.Fatal(err)
	}
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes([]byte(strings.ReplaceAll(string(file), string(h), "HOME")))
	if err != nil {
		t.Fatal(err)
	}
	return p.Map()
}

func TestBrokerOfAShortFileGetsAllFourProtocols(t *testing.T) {
	t.Parallel()
	const scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
	const plain = `org.apache.kafka.common.security.plain.PlainLoginModule required user_eve="a\\b\"c";`
	want := map[string]string{
		"node.id":                           "1",
		"listeners":                         "PLAINTEXT://:9092,SSL://:9093,SASL_PLAINTEXT://:9094,SASL_SSL://:9095,EXPOSED_29092://:29092",
		"advertised.listeners":              "PLAINTEXT://b:9092,SSL://b:9093,SASL_PLAINTEXT://b:9094,SASL_SSL://b:9095,EXPOSED_29092://127.0.0.1:29092",
		"listener.security.protocol.map":    "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,EXPOSED_29092:PLAINTEXT",
		"inter.broker.listener.name":        "PLAINTEXT",
		"kernel.accounting":                 "lab:/k.sock",
		"log.dirs":                          "HOME/nodes/b/data",
		"sasl.enabled.mechanisms":           "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"ssl.keystore.type":                 "PEM",
		"ssl.keystore.location":             "HOME/tls/node-b.pem",
		"ssl.truststore.type":               "PEM",
		"ssl.truststore.location":           "HOME/tls/ca.pem",
		"ssl.principal.mapping.rules":       "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
		"super.users":                       "User:admin",
		"listener.name.ssl.ssl.client.auth": "requested",
		"listener.name.sasl_plaintext.plain.sasl.jaas.config":         plain,
		"listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": scram,
		"listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": scram,
		"listener.name.sasl_ssl.plain.sasl.jaas.config":               plain,
		"listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config":       scram,
		"listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config":       scram,
	}
	got := prepared(t, "nodes: {b: {kind: broker, expose: [29092]}}\nusers: {eve: {password: 'a\\b\"c'}}", "/k.sock")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("server.properties (-want +got):\n%s", diff)
	}
}

func TestWhatTheFileSaysWins(t *testing.T) {
	t.Parallel()
	got := prepared(t, `
nodes:
  b:
    kind: broker
    listeners: [IN://10.0.0.9:9000, OUT://:9001]
    expose: [{port: 29000, protocol: SSL}]
    config:
      log.dirs: ""
      super.users: User:root
      security.inter.broker.protocol: PLAINTEXT
      ssl.client.auth: required
      listener.security.protocol.map: "in:SSL, OUT:PLAINTEXT, CONTROLLER:PLAINTEXT"
      advertised.listeners: "OUT://elsewhere:1"
`, "")
	want := map[string]string{
		"listeners":                        "IN://10.0.0.9:9000,OUT://:9001,EXPOSED_29000://:29000",
		"advertised.listeners":             "OUT://elsewhere:1,IN://10.0.0.9:9000,EXPOSED_29000://127.0.0.1:29000",
		"listener.security.protocol.map":   "in:SSL,OUT:PLAINTEXT,CONTROLLER:PLAINTEXT,EXPOSED_29000:SSL",
		"super.users":                      "User:root",
		"security.inter.broker.protocol":   "PLAINTEXT",
		"listener.name.in.ssl.client.auth": "required",
	}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s = %q, want %q", key, got[key], value)
		}
	}
	for _, key := range []string{"log.dirs", "inter.broker.listener.name", "kernel.accounting"} {
		if value, there := got[key]; there {
			t.Errorf("%s = %q, want it absent", key, value)
		}
	}
}
