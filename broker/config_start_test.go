package broker_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/brokerlab/brokerlab/broker"
)

// writePEM puts a certificate and its key into one file, as ssl.keystore.type=PEM has them.
func writePEM(t *testing.T, path string, cert tls.Certificate) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, b := range []*pem.Block{{Type: "PRIVATE KEY", Bytes: key}, {Type: "CERTIFICATE", Bytes: cert.Certificate[0]}} {
		if err := pem.Encode(&out, b); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAPropertiesFileBecomesABroker(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	dir := t.TempDir()
	writePEM(t, filepath.Join(dir, "broker.pem"), p.issue(t, pkix.Name{CommonName: "broker"}))
	file := filepath.Join(dir, "server.properties")
	text := fmt.Sprintf(`
node.id=7
listeners=PLAIN://127.0.0.1:0,SECURE://[::1]:0
listener.security.protocol.map=PLAIN:PLAINTEXT,SECURE:SASL_SSL
inter.broker.listener.name=PLAIN
log.dirs=%[1]s/data
ssl.keystore.type=PEM
ssl.keystore.location=%[1]s/broker.pem
sasl.enabled.mechanisms=PLAIN
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice-secret";
kernel.accounting=off
num.partitions=2
`, dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := broker.LoadConfig(file, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	b := start(t, cfg)
	ctx := limit(t)
	alice := []kgo.Opt{kgo.SASL(plain.Auth{User: "alice", Pass: "alice-secret"}.AsMechanism()), kgo.DialTLSConfig(p.client(t))}
	c := client(t, b.Addr("SECURE"), append(alice, kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic("t"))...)
	if err := c.ProduceSync(ctx, kgo.StringRecord("x")).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}

	// A renewed certificate is taken up by setting the same path again, one for another name is not.
	serial := func() string {
		conn, err := tls.Dial("tcp", b.Addr("SECURE").String(), p.client(t))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }() // only looked at
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	r := dial(t, b.Addr("PLAIN"))
	key, path := "listener.name.secure.ssl.keystore.location", dir+"/broker.pem"
	writePEM(t, path, p.issue(t, pkix.Name{CommonName: "broker"}))
	if code, message := alter(r, "7", map[string]*string{key: &path}); code != 0 {
		t.Fatalf("reload: %d %s", code, message)
	}
	renewed := serial()
	if renewed == before {
		t.Error("the renewed certificate is not used")
	}
	writePEM(t, path, p.issue(t, pkix.Name{CommonName: "somebody else"}))
	if code, message := alter(r, "7", map[string]*string{key: &path}); code != 42 || !strings.Contains(message, "DistinguishedName does not match") {
		t.Errorf("another name: %d %q, want 42 and why", code, message)
	}
	missing := dir + "/missing.pem"
	if code, _ := alter(r, "7", map[string]*string{key: &missing}); code != 42 {
		t.Errorf("a missing file: %d, want 42", code)
	}
	if after := serial(); after != renewed {
		t.Error("a refused key store changed the certificate")
	}
}

func TestAnAPIKeyOfAnotherCannotBeTaken(t *testing.T) {
	t.Parallel()
	cfg := plainConfig()
	cfg.ListClientConnectionsKey = 3
	if b, err := broker.New(cfg); err == nil || !strings.Contains(err.Error(), "API key 3 is that of Metadata") {
		t.Errorf("New = %v, %v, want an error that names Metadata", b, err)
	}
}
