package fidelity

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// session is how long Kafka lets a connection of SASL_SSL live without a password.
const session = 2 * time.Second

// behindTLS are the properties of a broker of ours whose engine is a Kafka, over SASL_SSL.
func behindTLS(kafka *peer, ca, password string) []string {
	return []string{
		"engine.bootstrap.servers=" + kafka.address("SASL_SSL"), "engine.security.protocol=SASL_SSL",
		"engine.ssl.truststore.type=PEM", "engine.ssl.truststore.location=" + ca, "engine.sasl.mechanism=PLAIN",
		`engine.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="root" password="` + password + `";`,
	}
}

// No case compares here: Kafka is what a broker of ours stands before, as in production, with certificates, passwords, and
// sessions that end.
func TestKafkaBehindTLSAndPasswordsIsAnEngine(t *testing.T) {
	needKafka(t)
	kafka := newPeer("kafka", t.TempDir())
	t.Cleanup(func() { _ = kafka.stop() })
	if err := kafka.start([]string{fmt.Sprint("listener.name.sasl_ssl.connections.max.reauth.ms=", session.Milliseconds())}); err != nil {
		t.Fatal(err)
	}
	face := newPeer("ours", t.TempDir())
	t.Cleanup(func() {
		if err := face.stop(); err != nil {
			t.Error(err)
		}
	})
	if err := face.start(behindTLS(kafka, kafka.pki.CA, "root")); err != nil {
		t.Fatal(err)
	}
	face.makeTopics(t, 1, "behind")

	// One client, which asks so often that its connection to Kafka is always the same one.
	c := face.dial(t, "SASL_PLAINTEXT", how{})
	find := kmsg.NewPtrMetadataRequest()
	find.Version, find.Topics = 12, []kmsg.MetadataRequestTopic{{Topic: new("behind")}}
	asked := 0
	for begin := time.Now(); time.Since(begin) < 5*session/2; asked++ {
		resp, _ := c.ask(t, find).(*kmsg.MetadataResponse)
		if len(resp.Brokers) != 1 || resp.Brokers[0].Port != int32(face.ports["SASL_PLAINTEXT"]) || resp.Topics[0].ErrorCode != 0 || resp.Topics[0].Partitions[0].Leader != 1 {
			t.Fatalf("Metadata = %+v, want the face alone, which leads", resp)
		}
	}
	if strings.Contains(face.log(), "the engine cannot be reached") || asked < 3 {
		t.Errorf("after %d requests in more than two sessions it says:\n%s", asked, face.tail())
	}

	for what, properties := range map[string][]string{
		"certificate signed by unknown authority": behindTLS(kafka, face.pki.CA, "root"),
		"SASL_AUTHENTICATION_FAILED":              behindTLS(kafka, kafka.pki.CA, "wrong"),
	} {
		refused := newPeer("ours", t.TempDir())
		refused.pki = face.pki
		refused.configure(properties)
		if err := os.MkdirAll(refused.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(refused.dir, "server.properties")
		if err := os.WriteFile(file, []byte(refused.text()), 0o600); err != nil {
			t.Fatal(err)
		}
		said := waitsInVain(t, refused, file, what)
		if strings.Contains(said, "listening") {
			t.Errorf("with %s it listens:\n%s", what, said)
		}
	}
}

// waitsInVain runs a broker until it says what keeps it from its engine, and returns all that it said.
func waitsInVain(t *testing.T, p *peer, file, what string) string {
	t.Helper()
	process, err := p.command(file, "")
	if err != nil {
		t.Fatal(err)
	}
	process.Stdout, process.Stderr = p.said, p.said
	dieWithUs(process)
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Wait() }()
	defer func(process *exec.Cmd) { _ = process.Process.Kill() }(process)
	kit.Eventually(t, "the broker says "+what, func() bool { return strings.Contains(p.log(), what) })
	return p.log()
}
