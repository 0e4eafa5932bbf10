package fidelity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pki is a certificate authority with a server's and a client's certificate, as PEM files in one folder.
type pki struct {
	ca, server, client string // server and client: key and chain in one file
}

func newPKI(dir string) (pki, error) {
	made := pki{ca: filepath.Join(dir, "ca.pem"), server: filepath.Join(dir, "server.pem"), client: filepath.Join(dir, "client.pem")}
	caKey, ca, err := issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "fidelity"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	if err != nil {
		return made, err
	}
	if err := os.WriteFile(made.ca, pemOf("CERTIFICATE", ca.Raw), 0o600); err != nil {
		return made, err
	}
	for file, template := range map[string]*x509.Certificate{
		made.server: {
			Subject: pkix.Name{CommonName: "broker"}, DNSNames: []string{"localhost"},
			IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		},
		made.client: {
			Subject:     pkix.Name{CommonName: "carol", Organization: []string{"fidelity"}},
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		},
	} {
		key, cert, err := issue(template, ca, caKey)
		if err != nil {
			return made, err
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			return made, err
		}
		if err := os.WriteFile(file, append(pemOf("PRIVATE KEY", der), pemOf("CERTIFICATE", cert.Raw)...), 0o600); err != nil {
			return made, err
		}
	}
	return made, nil
}

func issue(template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey) (*ecdsa.PrivateKey, *x509.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return key, cert, err
}

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// client is the TLS of a client that trusts the authority, and shows carol's certificate where it is to.
func (p pki) tls(host string, carol bool) (*tls.Config, error) {
	ca, err := os.ReadFile(p.ca)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: host}
	config.RootCAs.AppendCertsFromPEM(ca)
	if carol {
		pair, err := tls.LoadX509KeyPair(p.client, p.client)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
