package acl

import (
	"net/netip"
	"strings"
)

// Pattern names the resources that a rule is about.
type Pattern struct {
	Type ResourceType
	Name string
	Kind PatternType
}

// Binding is one rule: it allows or denies a principal an operation on resources, from a host. Two rules are the same when
// they are equal, byte for byte: 10.0.0.0/8 and 10.0.0.5/8 are two.
type Binding struct {
	Pattern
	Principal  string // Type:name; "User:*" is everybody
	Host       string // as it was given: "*", an address as Java prints it, or a CIDR range
	Operation  Operation
	Permission Permission
}

// String is the rule as Kafka's authorizer logs it.
func (b Binding) String() string {
	return "StandardAcl[resourceType=" + b.Type.String() + ", resourceName=" + b.Name + ", patternType=" + b.Kind.String() +
		", principal=" + b.Principal + ", host=" + b.Host + ", operation=" + b.Operation.String() + ", permissionType=" + b.Permission.String() + "]"
}

// Query is one question: may this principal, from this address, do this to the resource of this name?
type Query struct {
	Principal string // Type:name
	Client    netip.Addr
	Operation Operation
	Type      ResourceType
	Name      string
}

// SplitPrincipal parts Type:name at the first colon.
func SplitPrincipal(principal string) (kind, name string, ok bool) {
	return strings.Cut(principal, ":")
}
