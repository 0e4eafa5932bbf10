package clients

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

// pki is an authority with a broker's and a client's certificate, as PEM files, and another authority that vouched for nobody.
type pki struct {
	ca, server, client, clientKey string // server: key and chain in one file, as Kafka wants a PEM key store
	stranger                      string
}

// newPKI writes the files to dir. They are good for a day.
func newPKI(dir string) (pki, error) {
	caKey, ca, err := issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "clients"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}, nil, nil)
	if err != nil {
		return pki{}, err
	}
	_, stranger, err := issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "stranger"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, nil, nil)
	if err != nil {
		return pki{}, err
	}
	serverKey, server, err := issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "broker"}, DNSNames: []string{"localhost"}, KeyUsage: x509.KeyUsageDigitalSignature,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, ca, caKey)
	if err != nil {
		return pki{}, err
	}
	clientKey, client, err := issue(&x509.Certificate{
		Subject:  pkix.Name{CommonName: "carol", Organization: []string{"clients"}},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, caKey)
	if err != nil {
		return pki{}, err
	}
	made := pki{
		ca: filepath.Join(dir, "ca.pem"), server: filepath.Join(dir, "server.pem"), stranger: filepath.Join(dir, "stranger.pem"),
		client: filepath.Join(dir, "client.pem"), clientKey: filepath.Join(dir, "client.key"),
	}
	for path, text := range map[string]string{
		made.ca: pemOf("CERTIFICATE", ca.Raw), made.stranger: pemOf("CERTIFICATE", stranger.Raw),
		made.server: keyPEM(serverKey) + pemOf("CERTIFICATE", server.Raw),
		made.client: pemOf("CERTIFICATE", client.Raw), made.clientKey: keyPEM(clientKey),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return pki{}, err
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

func keyPEM(key *ecdsa.PrivateKey) string {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err) // no key of ours is of a kind that it does not know
	}
	return pemOf("PRIVATE KEY", der)
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}
