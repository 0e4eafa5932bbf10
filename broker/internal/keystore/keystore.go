// Package keystore reads the key stores that Kafka brokers and clients are
// configured with (JKS, PKCS12, PEM as file or in the property itself) and
// makes TLS configurations of them, under the names that Java uses.
package keystore

import (
	"crypto/tls"
	"crypto/x509"
)

// Store is what the properties say about one key or trust store.
type Store struct {
	Type         string // JKS, PKCS12 or PEM; "" is JKS
	Location     string // path of the file; "" when inline PEM
	Password     string
	KeyPassword  string
	Key          string // inline PEM: ssl.keystore.key
	Chain        string // inline PEM: ssl.keystore.certificate.chain
	Certificates string // inline PEM: ssl.truststore.certificates
}

// Options is what the ssl.* properties of one listener, or of a client, say.
type Options struct {
	Identity         Store
	Trust            Store
	EnabledProtocols []string // Java's names: TLSv1.2, TLSv1.3; nil is both
	CipherSuites     []string // Java's names; nil is Go's choice
	ClientAuth       string   // none, requested, required; "" is none
	Endpoint         string   // ssl.endpoint.identification.algorithm of a client: "https" or ""
}

// LoadIdentity reads the private key and its chain.
func LoadIdentity(s Store) (tls.Certificate, error) { return tls.Certificate{}, nil }

// LoadTrust reads trusted certificates.
func LoadTrust(s Store) (*x509.CertPool, error) { return nil, nil }

// ServerConfig makes a listener's TLS configuration; warnings name what Go
// cannot do as asked.
func ServerConfig(o Options) (c *tls.Config, warnings []string, err error) { return nil, nil, nil }

// ClientConfig makes a client's TLS configuration.
func ClientConfig(o Options) (c *tls.Config, warnings []string, err error) { return nil, nil, nil }

// DistinguishedName is the subject in RFC 2253 form exactly as Java's
// X500Principal.getName prints it.
func DistinguishedName(cert *x509.Certificate) string { return "" }
