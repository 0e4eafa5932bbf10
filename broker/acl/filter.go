package acl

import "strings"

// Filter selects rules, as DescribeAcls and DeleteAcls do (ResourcePatternFilter, AccessControlEntryFilter). Texts are
// compared byte for byte: a range finds the rule written that way and no other.
type Filter struct {
	Type       ResourceType // AnyResource selects every type
	Name       *string      // nil selects every name
	Kind       PatternType  // AnyPattern selects all; Match selects what would apply to the resource Name
	Principal  *string      // nil selects every principal
	Host       *string      // nil selects every host
	Operation  Operation    // AnyOperation selects all
	Permission Permission   // AnyPermission selects both
}

// AnyFilter selects every rule.
func AnyFilter() Filter {
	return Filter{Type: AnyResource, Kind: AnyPattern, Operation: AnyOperation, Permission: AnyPermission}
}

// Matches tells whether the filter selects b.
func (f Filter) Matches(b Binding) bool {
	return f.matchesPattern(b.Pattern) &&
		(f.Principal == nil || *f.Principal == b.Principal) &&
		(f.Host == nil || *f.Host == b.Host) &&
		(f.Operation == AnyOperation || f.Operation == b.Operation) &&
		(f.Permission == AnyPermission || f.Permission == b.Permission)
}

func (f Filter) matchesPattern(p Pattern) bool {
	if f.Type != AnyResource && f.Type != p.Type {
		return false
	}
	if f.Kind != AnyPattern && f.Kind != Match && f.Kind != p.Kind {
		return false
	}
	if f.Name == nil {
		return true
	}
	if f.Kind == Match {
		return p.Covers(*f.Name) || (p.Kind == Literal && p.Name == AnyName)
	}
	return *f.Name == p.Name
}

// Covers tells whether the pattern applies to the resource of a name. The literal "*" does not to names that begin with an
// asterisk, as groups may: Kafka's authorizer takes it for another literal there (StandardAuthorizerData.checkSection).
func (p Pattern) Covers(name string) bool {
	if p.Kind == Prefixed {
		return strings.HasPrefix(name, p.Name)
	}
	return p.Name == name || (p.Name == AnyName && !strings.HasPrefix(name, AnyName))
}

// AnyName is the literal name that stands for every resource of its type, see [Pattern.Covers].
const AnyName = "*"
