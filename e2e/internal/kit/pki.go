package kit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// PKI is a certificate authority with a broker's and a client's certificate, as PEM files in one folder, and another authority
// that vouched for nobody. The broker is localhost, 127.0.0.1 and ::1; the client is CN=carol,O=organization.
type PKI struct {
	CA, Stranger string
	// Server has key and chain in one file, as Kafka wants a PEM key store, and so has ClientStore.
	Server, ClientStore string
	// Client and ClientKey are the client's certificate and its key, apart.
	Client, ClientKey string
}

// NewPKI writes the files to dir, for a client of an organization. They are good for a day.
func NewPKI(dir, organization string) (PKI, error) {
	in := func(name string) string { return filepath.Join(dir, name) }
	made := PKI{
		CA: in("ca.pem"), Stranger: in("stranger.pem"), Server: in("server.pem"),
		ClientStore: in("client-store.pem"), Client: in("client.pem"), ClientKey: in("client.key"),
	}
	authority := func(name string) *x509.Certificate {
		return &x509.Certificate{
			Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		}
	}
	ca, err := issue(authority(organization), nil)
	if err != nil {
		return made, err
	}
	stranger, err := issue(authority("stranger"), nil)
	if err != nil {
		return made, err
	}
	server, err := issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "broker"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, ca)
	if err != nil {
		return made, err
	}
	client, err := issue(&x509.Certificate{
		Subject:  pkix.Name{CommonName: "carol", Organization: []string{organization}},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca)
	if err != nil {
		return made, err
	}
	for path, text := range map[string]string{
		made.CA: ca.chain, made.Stranger: stranger.chain, made.Server: server.keyText + server.chain,
		made.ClientStore: client.keyText + client.chain, made.Client: client.chain, made.ClientKey: client.keyText,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return made, err
		}
	}
	return made, nil
}

// issued is a certificate with its key, and both as PEM.
type issued struct {
	key            *ecdsa.PrivateKey
	certificate    *x509.Certificate
	keyText, chain string
}

// issue makes a certificate like template that by signed, or it itself where by is nil.
func issue(template *x509.Certificate, by *issued) (*issued, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	if by == nil {
		by = &issued{key: key, certificate: template}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.certificate, key.Public(), by.key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &issued{key, certificate, pemOf("PRIVATE KEY", private), pemOf("CERTIFICATE", der)}, nil
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
