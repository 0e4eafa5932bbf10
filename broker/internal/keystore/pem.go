package keystore

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/youmark/pkcs8"
)

// block is one PEM block.
type block struct {
	label   string // such as ENCRYPTED PRIVATE KEY
	headers string
	der     []byte
}

// blocks finds the PEM blocks whose label ends in kind. As for Kafka, any
// white space does between markers and content: a value in a properties file
// often has lost its line ends. What stands around blocks is ignored.
func blocks(text []byte, kind string) ([]block, error) {
	re := regexp.MustCompile(`-+BEGIN\s+([A-Z0-9 ]*?` + strings.ReplaceAll(kind, " ", `\s+`) + `)\s*-+\s+((?:[A-Za-z0-9-]+:[^\r\n]*[\r\n]+)*)\s*([a-zA-Z0-9/+=\s]*?)\s*-+END\s[^-]*-+`)
	var found []block
	for _, m := range re.FindAllSubmatch(text, -1) {
		der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(m[3])), ""))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m[1], err)
		}
		found = append(found, block{label: strings.Join(strings.Fields(string(m[1])), " "), headers: string(m[2]), der: der})
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no PEM block of type %s in it", kind)
	}
	return found, nil
}

func certificates(text []byte) ([]*x509.Certificate, error) {
	found, err := blocks(text, "CERTIFICATE")
	if err != nil {
		return nil, err
	}
	var certs []*x509.Certificate
	for i, b := range found {
		cert, err := x509.ParseCertificate(b.der)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", i+1, err)
		}
		certs = append(certs, cert)
	}
	return certs, nil
}

func identityFromPEM(keyText, chainText []byte, password string, where *Error) (tls.Certificate, error) {
	key, err := privateKey(keyText, password)
	if err != nil {
		return tls.Certificate{}, where.with(err)
	}
	if where.Location == "" {
		where = &Error{Property: "ssl.keystore.certificate.chain"}
	}
	chain, err := certificates(chainText)
	if err != nil {
		return tls.Certificate{}, where.with(err)
	}
	return identity(key, chain, where)
}

func trustFromPEM(text []byte, where *Error) (*x509.CertPool, error) {
	certs, err := certificates(text)
	if err != nil {
		return nil, where.with(err)
	}
	return pool(certs, where)
}

// privateKey reads the one private key of a text: PKCS#8, encrypted or not;
// also the older forms RSA PRIVATE KEY and EC PRIVATE KEY, which Kafka refuses.
func privateKey(text []byte, password string) (crypto.PrivateKey, error) {
	found, err := blocks(text, "PRIVATE KEY")
	if err != nil {
		return nil, err
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("one private key expected, but there are %d", len(found))
	}
	b := found[0]
	switch {
	case strings.Contains(b.headers, "ENCRYPTED"):
		return nil, errors.New("the key is encrypted in OpenSSL's old way: convert it to PKCS#8 with 'openssl pkcs8 -topk8 -v2 aes-256-cbc'")
	case b.label == "ENCRYPTED PRIVATE KEY" && password == "":
		return nil, errors.New("the key is encrypted: its password (ssl.key.password) is needed")
	case b.label == "ENCRYPTED PRIVATE KEY":
		encrypted, parseErr := pkcs8.ParsePKCS8PrivateKey(b.der, []byte(password))
		if parseErr != nil {
			return nil, fmt.Errorf("%w: is ssl.key.password right? (%w)", ErrPassword, parseErr)
		}
		return encrypted, nil
	case password != "":
		return nil, errors.New("ssl.key.password is given, but the key is not encrypted")
	case b.label == "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(b.der)
	case b.label == "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(b.der)
	case b.label != "PRIVATE KEY":
		return nil, fmt.Errorf("keys of type %s are not supported: convert it to PKCS#8", b.label)
	}
	key, err := x509.ParsePKCS8PrivateKey(b.der)
	if err != nil {
		return nil, fmt.Errorf("private key: %w", err)
	}
	return key, nil
}
