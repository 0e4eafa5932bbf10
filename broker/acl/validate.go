package acl

import "strings"

// Kafka's codes of what can be wrong with a rule.
const (
	codeUnsupportedVersion = 35
	codeInvalidRequest     = 42
)

// cidrLevel is the level of metadata.version from which rules may be made with ranges: 4.4-IV1.
const cidrLevel = 32

// Refusal is why a rule may not be created: a Kafka error code and its text.
type Refusal struct {
	Code    int16
	Message string
}

// Unsupported tells that the rule itself may be right, but the level of metadata.version is too low for it.
func (r *Refusal) Unsupported() bool { return r.Code == codeUnsupportedVersion }

// Validate checks a rule that is to be created in a cluster whose metadata.version is at level, in Kafka's order and with its
// texts (AclApis.handleCreateAcls, AclControlManager.validateNewAcl). It returns nil where there is nothing to refuse.
func Validate(b Binding, level int16) *Refusal {
	invalid := func(text string) *Refusal { return &Refusal{codeInvalidRequest, text} }
	switch {
	case b.Type == Cluster && b.Name != ClusterName:
		return invalid("The only valid name for the CLUSTER resource is " + ClusterName)
	case b.Name == "":
		return invalid("Invalid empty resource name")
	case b.Type.String() == "UNKNOWN" || b.Type == AnyResource:
		return invalid("Invalid resourceType " + b.Type.String())
	case b.Kind != Literal && b.Kind != Prefixed:
		return invalid("Invalid patternType " + b.Kind.String())
	case b.Operation.String() == "UNKNOWN" || b.Operation == AnyOperation:
		return invalid("Invalid operation " + b.Operation.String())
	case b.Permission != Allow && b.Permission != Deny:
		return invalid("Invalid permissionType " + b.Permission.String())
	case !strings.Contains(b.Principal, ":"):
		return invalid("Could not parse principal from `" + b.Principal + "` (no colon is present separating the principal type from the principal name)")
	case b.Host == "":
		return invalid("Host pattern cannot be null or empty")
	case !IsCIDR(b.Host):
		return nil
	case level < cidrLevel:
		return &Refusal{codeUnsupportedVersion, "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."}
	}
	if _, err := ParseCIDR(b.Host); err != nil {
		return invalid("Invalid CIDR notation '" + b.Host + "': " + err.Error())
	}
	return nil
}
