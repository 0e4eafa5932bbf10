package keystore

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
)

// CheckRenewal tells whether a running listener may take a new certificate for
// the one it has: the subject must stay, but for case, and every alternative
// name too, unless changes of them are allowed. The texts are Kafka's, with
// the alias that it gives to PEM.
func CheckRenewal(existing, next *x509.Certificate, allowDN, allowSAN bool) error {
	if was, is := DistinguishedName(existing), DistinguishedName(next); !allowDN && !strings.EqualFold(was, is) {
		return fmt.Errorf("Keystore DistinguishedName does not match:  existing={alias=kafka, DN=%s}, new={alias=kafka, DN=%s}", was, is) //nolint:staticcheck // Kafka's text
	}
	was, is := alternativeNames(existing), alternativeNames(next)
	if !allowSAN && slices.ContainsFunc(was, func(name string) bool { return !slices.Contains(is, name) }) {
		return fmt.Errorf("Keystore SubjectAltNames do not match:  existing={alias=kafka, SAN=%s}, new={alias=kafka, SAN=%s}", javaNames(was), javaNames(is)) //nolint:staticcheck // Kafka's text
	}
	return nil
}

func alternativeNames(c *x509.Certificate) []string {
	var names []string
	add := func(kind int, name string) { names = append(names, fmt.Sprintf("[%d, %s]", kind, name)) }
	for _, name := range c.EmailAddresses {
		add(nameEmail, name)
	}
	for _, name := range c.DNSNames {
		add(nameDNS, name)
	}
	for _, u := range c.URIs {
		add(nameURI, u.String())
	}
	for _, ip := range c.IPAddresses {
		add(nameIP, ip.String())
	}
	return names
}

// Kinds of GeneralName, RFC 5280.
const (
	nameEmail = 1
	nameDNS   = 2
	nameURI   = 6
	nameIP    = 7
)

func javaNames(names []string) string { return "[" + strings.Join(names, ", ") + "]" }
