package netlab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/brokerlab/brokerlab/netlab/topology"
)

// authority signs the certificates of one lab. Nothing outside the lab trusts it, and its key is never written.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	now  time.Time
}

func newAuthority(lab string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{key: key, now: time.Now()}
	template := a.template("CA of lab " + lab)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	a.cert, err = x509.ParseCertificate(der)
	return a, err
}

func (a *authority) template(cn string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		serial = big.NewInt(a.now.UnixNano()) // the random source never fails on Linux
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: cn},
		NotBefore: a.now.Add(-time.Hour), NotAfter: a.now.AddDate(1, 0, 0), // clocks of containers differ
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
}

// identity is a key with its certificate.
type identity struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	ca   *x509.Certificate
}

// issue makes a key and a certificate for it.
func (a *authority) issue(template *x509.Certificate) (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &identity{key, cert, a.cert}, err
}

// pem is the identity in the order that Kafka's PEM key stores want: key, certificate, CA.
func (id *identity) pem() ([]byte, error) {
	key, err := x509.MarshalPKCS8PrivateKey(id.key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	return append(append(text, certPEM(id.cert.Raw)...), certPEM(id.ca.Raw)...), nil
}

// storePassword opens the PKCS12 files of every lab. Java wants one of six characters or more; what protects the files is
// who may read them, as with the PEM files.
const storePassword = "changeit"

// pkcs12 is the identity as a key store.
func (id *identity) pkcs12() ([]byte, error) {
	return pkcs12.Modern2023.Encode(id.key, id.cert, []*x509.Certificate{id.ca}, storePassword)
}

// pkcs12 is the authority's certificate as a trust store.
func (a *authority) pkcs12() ([]byte, error) {
	return pkcs12.Modern2023.EncodeTrustStore([]*x509.Certificate{a.cert}, storePassword)
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// server is a node's identity: its name, all its addresses, and what exposed ports call it.
func (a *authority) server(n *topology.Node) (*identity, error) {
	t := a.template(n.Name)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	t.DNSNames = []string{n.Name, "localhost"}
	t.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	for _, addr := range n.Addresses {
		t.IPAddresses = append(t.IPAddresses, addr.AsSlice())
	}
	return a.issue(t)
}

// client is a user's identity.
func (a *authority) client(user *topology.User) (*identity, error) {
	t := a.template(user.Name)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if user.DN != "" {
		name, err := topology.ParseDN(user.DN)
		if err != nil {
			return nil, fmt.Errorf("certificate of user %s: %w", user.Name, err)
		}
		if t.RawSubject, err = asn1.Marshal(name); err != nil {
			return nil, fmt.Errorf("certificate of user %s: %w", user.Name, err)
		}
	}
	return a.issue(t)
}
