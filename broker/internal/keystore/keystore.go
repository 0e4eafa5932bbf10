// Package keystore reads the key stores that Kafka brokers and clients are
// configured with (JKS, PKCS12, PEM as file or in the property itself) and
// makes TLS configurations of them, under the names that Java uses.
//
// A store is read whole and at once: what comes back holds no file. Nothing
// here watches a file for changes.
package keystore

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	jks "github.com/pavlo-v-chernykh/keystore-go/v4"
	"software.sslmate.com/src/go-pkcs12"
)

// Store is what the properties say about one key or trust store. The zero
// value is none.
type Store struct {
	// Type is JKS, PKCS12 or PEM; "" is JKS. As in Java, a file that is really
	// of the other one of JKS and PKCS12 is read all the same.
	Type        string
	Location    string // path of the file; "" when the PEM is inline
	Password    string // of a JKS or PKCS12 file; "" is not specified
	KeyPassword string // of the private key; "" is that of the store, or none
	// Key, Chain and Certificates are inline PEM: ssl.keystore.key,
	// ssl.keystore.certificate.chain and ssl.truststore.certificates.
	Key          string
	Chain        string
	Certificates string
}

// Specified tells whether there is anything to load.
func (s Store) Specified() bool { return s.Location != "" || s.Key != "" || s.Certificates != "" }

// Error is a problem with a store, or with another ssl.* property.
type Error struct {
	Property string // such as ssl.keystore.location
	Location string // the file, if it is about one
	Err      error
}

func (e *Error) Error() string {
	if e.Location == "" {
		return fmt.Sprintf("%s: %v", e.Property, e.Err)
	}
	return fmt.Sprintf("%s=%s: %v", e.Property, e.Location, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

func problem(property, format string, args ...any) error {
	return &Error{Property: property, Err: fmt.Errorf(format, args...)}
}

// ErrPassword is a store or key password that does not fit.
var ErrPassword = errors.New("wrong password, or the file is damaged")

// LoadIdentity reads the private key and its chain. The error is an [*Error].
func LoadIdentity(s Store) (tls.Certificate, error) {
	isPEM := s.Type == "PEM"
	switch {
	case s.Key != "" && !isPEM:
		return tls.Certificate{}, problem("ssl.keystore.key", "a private key can be given only with ssl.keystore.type PEM, which is %s", s.typeName())
	case s.Key != "" && s.Chain == "":
		return tls.Certificate{}, problem("ssl.keystore.key", "the certificate chain (ssl.keystore.certificate.chain) is not given")
	case s.Key != "" && s.Location != "":
		return tls.Certificate{}, problem("ssl.keystore.key", "both ssl.keystore.location and a separate private key are given")
	case s.Key == "" && s.Chain != "":
		return tls.Certificate{}, problem("ssl.keystore.certificate.chain", "the private key (ssl.keystore.key) is not given")
	case isPEM && s.Password != "":
		return tls.Certificate{}, problem("ssl.keystore.password", "PEM has no store password, only a key password (ssl.key.password)")
	case s.Key != "":
		return identityFromPEM([]byte(s.Key), []byte(s.Chain), s.KeyPassword, &Error{Property: "ssl.keystore.key"})
	case s.Location == "" && s.Password != "":
		return tls.Certificate{}, problem("ssl.keystore.password", "a password is given without a key store (ssl.keystore.location)")
	case s.Location == "":
		return tls.Certificate{}, problem("ssl.keystore.location", "a key store is needed")
	case !isPEM && s.Password == "":
		return tls.Certificate{}, problem("ssl.keystore.location", "the key store's password (ssl.keystore.password) is not given")
	}
	where := &Error{Property: "ssl.keystore.location", Location: s.Location}
	content, err := s.read("ssl.keystore")
	if err != nil {
		return tls.Certificate{}, err
	}
	switch kindOf(content, isPEM) {
	case "PEM":
		return identityFromPEM(content, content, s.KeyPassword, where)
	case "JKS":
		return s.identityFromJKS(content, where)
	default:
		return s.identityFromPKCS12(content, where)
	}
}

// LoadTrust reads trusted certificates. A nil pool without an error is a store
// that is not specified: the system's certificates are trusted. The error is
// an [*Error].
func LoadTrust(s Store) (*x509.CertPool, error) {
	isPEM := s.Type == "PEM"
	switch {
	case s.Certificates != "" && !isPEM:
		return nil, problem("ssl.truststore.certificates", "certificates can be given only with ssl.truststore.type PEM, which is %s", s.typeName())
	case s.Certificates != "" && s.Location != "":
		return nil, problem("ssl.truststore.certificates", "both ssl.truststore.location and separate certificates are given")
	case isPEM && s.Password != "":
		return nil, problem("ssl.truststore.password", "PEM has no store password")
	case s.Certificates != "":
		return trustFromPEM([]byte(s.Certificates), &Error{Property: "ssl.truststore.certificates"})
	case s.Location == "" && s.Password != "":
		return nil, problem("ssl.truststore.password", "a password is given without a trust store (ssl.truststore.location)")
	case s.Location == "":
		return nil, nil
	}
	where := &Error{Property: "ssl.truststore.location", Location: s.Location}
	content, err := s.read("ssl.truststore")
	if err != nil {
		return nil, err
	}
	switch kindOf(content, isPEM) {
	case "PEM":
		return trustFromPEM(content, where)
	case "JKS":
		return s.trustFromJKS(content, where)
	default:
		return s.trustFromPKCS12(content, where)
	}
}

func (s Store) typeName() string {
	if s.Type == "" {
		return "JKS"
	}
	return s.Type
}

// read gives the file's content once the type is known to be one we read.
func (s Store) read(prefix string) ([]byte, error) {
	if s.Type != "PEM" && !strings.EqualFold(s.typeName(), "JKS") && !strings.EqualFold(s.typeName(), "PKCS12") {
		return nil, problem(prefix+".type", "%q is not supported: use JKS, PKCS12 or PEM", s.Type)
	}
	content, err := os.ReadFile(s.Location)
	if err != nil {
		if e, ok := errors.AsType[*os.PathError](err); ok {
			err = e.Err // the path is said already
		}
		return nil, &Error{Property: prefix + ".location", Location: s.Location, Err: err}
	}
	return content, nil
}

// kindOf tells JKS from PKCS12 by content, as Java does.
func kindOf(content []byte, isPEM bool) string {
	switch {
	case isPEM:
		return "PEM"
	case bytes.HasPrefix(content, []byte{0xfe, 0xed, 0xfe, 0xed}):
		return "JKS"
	}
	return "PKCS12"
}

func (e *Error) with(err error) error {
	return &Error{Property: e.Property, Location: e.Location, Err: err}
}

func (s Store) identityFromJKS(content []byte, where *Error) (tls.Certificate, error) {
	if err := claimsOfJKS(content); err != nil {
		return tls.Certificate{}, where.with(err)
	}
	store := jks.New(jks.WithOrderedAliases(), jks.WithCaseExactAliases())
	if err := store.Load(bytes.NewReader(content), []byte(s.Password)); err != nil {
		return tls.Certificate{}, where.with(fmt.Errorf("%w (%w)", ErrPassword, err))
	}
	password := s.KeyPassword
	if password == "" {
		password = s.Password
	}
	for _, alias := range store.Aliases() {
		if !store.IsPrivateKeyEntry(alias) {
			continue
		}
		entry, err := store.GetPrivateKeyEntry(alias, []byte(password))
		if err != nil {
			return tls.Certificate{}, where.with(fmt.Errorf("key %q: %w; is ssl.key.password right? (%w)", alias, ErrPassword, err))
		}
		key, err := x509.ParsePKCS8PrivateKey(entry.PrivateKey)
		if err != nil {
			return tls.Certificate{}, where.with(fmt.Errorf("key %q: %w", alias, err))
		}
		var chain []*x509.Certificate
		for _, c := range entry.CertificateChain {
			cert, err := x509.ParseCertificate(c.Content)
			if err != nil {
				return tls.Certificate{}, where.with(fmt.Errorf("certificate chain of key %q: %w", alias, err))
			}
			chain = append(chain, cert)
		}
		return identity(key, chain, where)
	}
	return tls.Certificate{}, where.with(errors.New("no private key in it"))
}

func (s Store) trustFromJKS(content []byte, where *Error) (*x509.CertPool, error) {
	store := jks.New(jks.WithOrderedAliases(), jks.WithCaseExactAliases())
	if s.Password == "" {
		return nil, where.with(errors.New("a JKS trust store without its password (ssl.truststore.password) is not supported"))
	}
	if err := claimsOfJKS(content); err != nil {
		return nil, where.with(err)
	}
	if err := store.Load(bytes.NewReader(content), []byte(s.Password)); err != nil {
		return nil, where.with(fmt.Errorf("%w (%w)", ErrPassword, err))
	}
	var certs []*x509.Certificate
	for _, alias := range store.Aliases() {
		var content []byte
		switch {
		case store.IsTrustedCertificateEntry(alias):
			entry, err := store.GetTrustedCertificateEntry(alias)
			if err != nil {
				return nil, where.with(fmt.Errorf("entry %q: %w", alias, err))
			}
			content = entry.Certificate.Content
		case store.IsPrivateKeyEntry(alias): // Java trusts its first certificate
			chain, err := store.GetPrivateKeyEntryCertificateChain(alias)
			if err != nil {
				return nil, where.with(fmt.Errorf("entry %q: %w", alias, err))
			}
			if len(chain) == 0 {
				continue
			}
			content = chain[0].Content
		}
		cert, err := x509.ParseCertificate(content)
		if err != nil {
			return nil, where.with(fmt.Errorf("entry %q: %w", alias, err))
		}
		certs = append(certs, cert)
	}
	return pool(certs, where)
}

func (s Store) identityFromPKCS12(content []byte, where *Error) (tls.Certificate, error) {
	if s.KeyPassword != "" && s.KeyPassword != s.Password {
		return tls.Certificate{}, where.with(errors.New("ssl.key.password differs from ssl.keystore.password; in PKCS12 they are the same"))
	}
	if err := claimsOfPKCS12(content); err != nil {
		return tls.Certificate{}, where.with(err)
	}
	key, leaf, others, err := pkcs12.DecodeChain(content, s.Password)
	if err != nil {
		return tls.Certificate{}, where.with(notPKCS12(content, err))
	}
	return identity(key, sortChain(key, append([]*x509.Certificate{leaf}, others...)), where)
}

func (s Store) trustFromPKCS12(content []byte, where *Error) (*x509.CertPool, error) {
	if err := claimsOfPKCS12(content); err != nil {
		return nil, where.with(err)
	}
	certs, err := pkcs12.DecodeTrustStore(content, s.Password)
	if err != nil {
		return nil, where.with(notPKCS12(content, err))
	}
	return pool(certs, where)
}

func notPKCS12(content []byte, err error) error {
	if bytes.Contains(content, []byte("-----BEGIN")) {
		return errors.New("this is PEM: set the store's type to PEM")
	}
	if errors.Is(err, pkcs12.ErrIncorrectPassword) || errors.Is(err, pkcs12.ErrDecryption) {
		return ErrPassword
	}
	return fmt.Errorf("neither JKS nor PKCS12 that can be read: %s", strings.TrimPrefix(err.Error(), "pkcs12: "))
}

func pool(certs []*x509.Certificate, where *Error) (*x509.CertPool, error) {
	if len(certs) == 0 {
		return nil, where.with(errors.New("no trusted certificate in it"))
	}
	p := x509.NewCertPool()
	for _, c := range certs {
		p.AddCert(c)
	}
	return p, nil
}

// sortChain puts the key's own certificate first and its issuers behind it;
// what belongs to neither is left out.
func sortChain(key crypto.PrivateKey, certs []*x509.Certificate) []*x509.Certificate {
	i := slices.IndexFunc(certs, func(c *x509.Certificate) bool { return belongs(key, c) })
	if i < 0 {
		return certs
	}
	chain := []*x509.Certificate{certs[i]}
	certs = slices.Delete(slices.Clone(certs), i, i+1)
	for {
		last := chain[len(chain)-1]
		i := slices.IndexFunc(certs, func(c *x509.Certificate) bool {
			return bytes.Equal(c.RawSubject, last.RawIssuer) && last.CheckSignatureFrom(c) == nil
		})
		if i < 0 || bytes.Equal(last.RawSubject, last.RawIssuer) {
			return chain
		}
		chain = append(chain, certs[i])
		certs = slices.Delete(certs, i, i+1)
	}
}

func belongs(key crypto.PrivateKey, cert *x509.Certificate) bool {
	signer, ok := key.(crypto.Signer)
	if !ok {
		return false
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(cert.PublicKey)
}

// identity joins a key and its chain, the key's own certificate first.
func identity(key crypto.PrivateKey, chain []*x509.Certificate, where *Error) (tls.Certificate, error) {
	if len(chain) == 0 {
		return tls.Certificate{}, where.with(errors.New("no certificate in it"))
	}
	if _, ok := key.(crypto.Signer); !ok {
		return tls.Certificate{}, where.with(fmt.Errorf("private keys of type %T are not supported: use RSA, EC or Ed25519", key))
	}
	if !belongs(key, chain[0]) {
		return tls.Certificate{}, where.with(fmt.Errorf("the first certificate, of %s, does not belong to the private key", DistinguishedName(chain[0])))
	}
	c := tls.Certificate{PrivateKey: key, Leaf: chain[0]}
	for _, cert := range chain {
		c.Certificate = append(c.Certificate, cert.Raw)
	}
	return c, nil
}
