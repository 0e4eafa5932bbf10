package netlab

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"os"
	"testing"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/brokerlab/brokerlab/netlab/topology"
)

func TestCertificatesOfALabFitTogether(t *testing.T) {
	t.Parallel()
	lab, err := topology.Parse("lab.yaml", []byte("name: x\nnodes: {b: {kind: broker, addresses: [10.0.0.1, 'fd00::1']}}\nusers: {alice: {}}"))
	if err != nil {
		t.Fatal(err)
	}
	h := home(t.TempDir())
	err = h.material(lab)
	if err != nil {
		t.Fatalf("material = %v, want nil", err)
	}
	ca, err := os.ReadFile(h.path("tls", "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("ca.pem has no certificate")
	}
	server := pair(t, h.path("tls", nodePEM("b")))
	for _, name := range []string{"b", "localhost", "10.0.0.1", "fd00::1", "127.0.0.1", "::1"} {
		_, err = server.Leaf.Verify(x509.VerifyOptions{Roots: pool, DNSName: name})
		if err != nil {
			t.Errorf("Verify(%s) = %v, want nil", name, err)
		}
	}
	if server.Leaf.VerifyHostname("10.0.0.2") == nil {
		t.Error("VerifyHostname of another address = nil, want an error")
	}
	client := pair(t, h.path("tls", userPEM("alice")))
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	_, err = client.Leaf.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: usage})
	if err != nil {
		t.Errorf("Verify of a client = %v, want nil", err)
	}
	if got := client.Leaf.Subject.String(); got != "CN=alice" {
		t.Errorf("subject = %s, want CN=alice", got)
	}
	info, err := os.Stat(h.path("tls", userPEM("alice")))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of a key = %v, %v, want 0600", info.Mode(), err)
	}
}

func pair(t *testing.T, path string) tls.Certificate {
	t.Helper()
	c, err := tls.LoadX509KeyPair(path, path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLabWithoutIPv6NeedsAnotherAddress(t *testing.T) {
	t.Parallel()
	lab := &topology.Lab{Name: "x", Nodes: []topology.Node{{Name: "b", Addresses: []netip.Addr{netip.MustParseAddr("fd00::1")}}}}
	if _, _, err := withoutIPv6(lab, "why not"); err == nil {
		t.Error("withoutIPv6 of a node with IPv6 only = nil, want an error")
	}
}

func TestPKCS12StoresHoldWhatThePEMFilesHold(t *testing.T) {
	t.Parallel()
	lab, err := topology.Parse("lab.yaml", []byte("name: x\nnodes: {b: {kind: broker}}\nusers: {alice: {}}"))
	if err != nil {
		t.Fatal(err)
	}
	h := home(t.TempDir())
	err = h.material(lab)
	if err != nil {
		t.Fatalf("material = %v, want nil", err)
	}
	_, leaf, others, err := pkcs12.DecodeChain(file(t, h.path("tls", "user-alice.p12")), storePassword)
	if err != nil {
		t.Fatalf("DecodeChain = %v, want nil", err)
	}
	ca, err := pkcs12.DecodeTrustStore(file(t, h.path("tls", "ca.p12")), storePassword)
	if err != nil || len(ca) != 1 || len(others) != 1 || !ca[0].Equal(others[0]) {
		t.Fatalf("DecodeTrustStore = %d certificates, %v, want the one that the key store ends with", len(ca), err)
	}
	if want := pair(t, h.path("tls", "user-alice.pem")).Leaf; !leaf.Equal(want) {
		t.Errorf("PKCS12 has the certificate %s, PEM %s, want the same", leaf.SerialNumber, want.SerialNumber)
	}
	want := "bootstrap.servers=b:9093\nsecurity.protocol=SSL\n" +
		"ssl.truststore.type=PKCS12\nssl.truststore.location=" + h.path("tls", "ca.p12") + "\nssl.truststore.password=changeit\n" +
		"ssl.keystore.type=PKCS12\nssl.keystore.location=" + h.path("tls", "user-alice.p12") + "\nssl.keystore.password=changeit\n"
	if got := string(file(t, h.pkcs12Properties("SSL", "alice"))); got != want {
		t.Errorf("pkcs12/alice.properties = %s, want %s", got, want)
	}
	if _, err := os.Stat(h.pkcs12Properties("SASL_PLAINTEXT", "alice")); err == nil {
		t.Error("SASL_PLAINTEXT has properties with stores, want none")
	}
}

func file(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
