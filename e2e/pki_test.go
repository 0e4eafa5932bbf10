package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"testing"
	"time"
)

// pki is a certificate authority with a server's and a client's certificate, as PEM files in one folder.
type pki struct {
	ca, server, client, clientKey string // server: key and chain in one file, as Kafka wants a PEM key store
}

func newPKI(t *testing.T, dir string) pki {
	t.Helper()
	caKey, ca := issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "e2e"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	serverKey, server := issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "broker"}, DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, caKey)
	clientKey, client := issue(t, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "carol", Organization: []string{"e2e"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, caKey)
	return pki{
		ca:        writeFile(t, dir, "ca.pem", pemOf("CERTIFICATE", ca.Raw)),
		server:    writeFile(t, dir, "server.pem", keyPEM(t, serverKey)+pemOf("CERTIFICATE", server.Raw)),
		client:    writeFile(t, dir, "client.pem", pemOf("CERTIFICATE", client.Raw)),
		clientKey: writeFile(t, dir, "client.key", keyPEM(t, clientKey)),
	}
}

func issue(t *testing.T, template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return key, cert
}

func keyPEM(t *testing.T, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pemOf("PRIVATE KEY", der)
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
