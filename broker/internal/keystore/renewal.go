package keystore

import (
	"crypto/x509"
	"fmt"
	"slices"
	"strings"
)

// CheckRenewal tells whether a running listener may take a new certificate for
// the one it has: the subject must stay, but for case, and every alternative
// name too, unless changes of them are allowed. The texts are Kafka's, without
// aliases.
func CheckRenewal(existing, next *x509.Certificate, allowDN, allowSAN bool) error {
	if was, is := DistinguishedName(existing), DistinguishedName(next); !allowDN && !strings.EqualFold(was, is) {
		return fmt.Errorf("Keystore DistinguishedName does not match:  existing={DN=%s}, new={DN=%s}", was, is) //nolint:staticcheck // Kafka's text
	}
	was, is := alternativeNames(existing), alternativeNames(next)
	if !allowSAN && slices.ContainsFunc(was, func(name string) bool { return !slices.Contains(is, name) }) {
		return fmt.Errorf("Keystore SubjectAltNames do not match:  existing={SAN=%s}, new={SAN=%s}", was, is) //nolint:staticcheck // Kafka's text
	}
	return nil
}

func alternativeNames(c *x509.Certificate) []string {
	names := slices.Concat(c.DNSNames, c.EmailAddresses)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	return names
}
