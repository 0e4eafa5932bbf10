package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

func TestKcatProducesAndConsumesOverEveryProtocol(t *testing.T) {
	needKcat(t)
	b := startBroker(t)
	for _, protocol := range protocols() {
		t.Run(protocol, func(t *testing.T) {
			topic := "t-" + strings.ToLower(protocol)
			mustRun(t, "one\ntwo\nthree\n", "kcat", b.kcat(protocol, "-P", "-t", topic)...)
			got := mustRun(t, "", "kcat", b.kcat(protocol, "-C", "-t", topic, "-o", "beginning", "-e", "-q")...)
			if want := "one\ntwo\nthree\n"; got != want {
				t.Errorf("consumed %q, want %q", got, want)
			}
		})
	}
}

func TestMetadataNamesTheListenerThatWasAsked(t *testing.T) {
	needKcat(t)
	b := startBroker(t)
	for _, protocol := range protocols() {
		got := mustRun(t, "", "kcat", b.kcat(protocol, "-L", "-J")...)
		var answer struct {
			Brokers []struct{ Name string } `json:"brokers"`
		}
		if err := json.Unmarshal([]byte(got), &answer); err != nil {
			t.Fatalf("%s: read kcat's answer: %v", protocol, err)
		}
		if len(answer.Brokers) != 1 || answer.Brokers[0].Name != b.address(protocol) {
			t.Errorf("%s: brokers = %v, want only %s", protocol, answer.Brokers, b.address(protocol))
		}
	}
}

func TestRecordsSurviveAKill(t *testing.T) {
	needKcat(t)
	b := startBroker(t)
	mustRun(t, "kept\n", "kcat", b.kcat("PLAINTEXT", "-P", "-t", "kept")...)
	b.restart(t)
	got := mustRun(t, "", "kcat", b.kcat("PLAINTEXT", "-C", "-t", "kept", "-o", "beginning", "-e", "-q")...)
	if want := "kept\n"; got != want {
		t.Errorf("consumed %q after the kill, want %q", got, want)
	}
}

func TestAWrongPasswordIsRefused(t *testing.T) {
	needKcat(t)
	b := startBroker(t)
	args := b.kcat("SASL_SSL", "-L", "-m", "5")
	args = append(args, "-X", "sasl.password=wrong")
	r := run(t, "", "kcat", args...)
	if r.code == 0 || !strings.Contains(r.stderr, "Invalid username or password") {
		t.Errorf("kcat with a wrong password: exit %d, said %q; want a failure that names the password", r.code, r.stderr)
	}
}

func TestACertificateIsThePrincipal(t *testing.T) {
	needKcat(t)
	b := startBroker(t)
	consumer := b.kcat("SSL", "-C", "-t", "held", "-X", "ssl.certificate.location="+b.pki.Client, "-X", "ssl.key.location="+b.pki.ClientKey,
		"-X", "client.id=carols-kcat", "-X", "allow.auto.create.topics=true")
	mustRun(t, "x\n", "kcat", b.kcat("PLAINTEXT", "-P", "-t", "held")...)
	hold(t, "kcat", consumer...)
	kit.Eventually(t, "carol's connection is listed with kcat's software name", func() bool {
		r := brokerlab(t, "connections", "list", "--bootstrap-server", b.address("PLAINTEXT"), "--format", "json")
		return r.code == 0 && strings.Contains(r.stdout, "User:CN=carol,O=e2e") && strings.Contains(r.stdout, "librdkafka")
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
