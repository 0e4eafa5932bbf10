package admin

import (
	"crypto/x509"

	"github.com/brokerlab/brokerlab/broker/internal/keystore"
	"github.com/brokerlab/brokerlab/broker/internal/sasl"
)

// PrincipalRules make principals of the distinguished names in certificates, as ssl.principal.mapping.rules has it. Safe for
// concurrent use.
type PrincipalRules struct{ mapper *sasl.Mapper }

// ParsePrincipalRules reads a value of ssl.principal.mapping.rules, such as RULE:^CN=(.*?),.*$/$1/L,DEFAULT. "" has no rule: nothing maps.
// Java's look-around and back-references in patterns are refused, as by the broker.
func ParsePrincipalRules(text string) (*PrincipalRules, error) {
	mapper, err := sasl.ParseRules(text)
	if err != nil {
		return nil, err
	}
	return &PrincipalRules{mapper}, nil
}

// Map gives the principal's name for a distinguished name as RFC 2253 writes it. No rule that matches is an error.
func (r *PrincipalRules) Map(dn string) (string, error) { return r.mapper.Map(dn) }

// Subject is the distinguished name of a certificate's subject as a broker gives it to its rules; only RawSubject of the
// certificate is read.
func Subject(cert *x509.Certificate) string { return keystore.DistinguishedName(cert) }
