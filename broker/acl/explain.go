package acl

import (
	"cmp"
	"slices"
	"strings"
)

// Rule is what decided, as Kafka's authorizer logs it.
type Rule uint8

// What can decide.
const (
	DefaultDeny Rule = iota
	DefaultAllow
	SuperUser
	MatchingRule
)

// Reason is what decided a query.
type Reason struct {
	Allowed  bool
	Rule     Rule
	Deciding *Binding // of a MatchingRule
}

// String is the rule as Kafka's authorizer logs it.
func (r Reason) String() string {
	switch r.Rule {
	case SuperUser:
		return "SuperUser"
	case DefaultAllow:
		return "DefaultAllow"
	case MatchingRule:
		return "MatchingAcl(acl=" + r.Deciding.String() + ")"
	case DefaultDeny:
	}
	return "DefaultDeny"
}

// Mismatch is why a rule has no say in a query; Applies is that it has.
type Mismatch uint8

// Why a rule has no say, in the order in which they are looked at.
const (
	Applies            Mismatch = iota
	OtherType                   // the rule is about another type of resource
	OtherResource               // a literal pattern of another name
	OtherPrefix                 // a prefixed pattern that the name does not begin with
	OtherPrincipal              // for somebody else
	PrincipalCase               // for somebody whose name differs in case only
	OtherFamily                 // a range of IPv4 and a client of IPv6, or the other way round
	OutsideRange                // a range that the client is not in
	UnparsableRange             // has a slash but is no range: matches nobody
	OtherHost                   // another address
	HostSpelling                // the same address, but not as Java prints it
	HostName                    // no address at all: names are never resolved
	OtherOperation              // the operation is another, and not implied
	DenyImpliesNothing          // a DENY of an operation that, allowed, would imply this one
)

// String says it in a few words.
func (m Mismatch) String() string {
	switch m {
	case Applies:
		return "applies"
	case OtherType:
		return "other resource type"
	case OtherResource:
		return "other resource"
	case OtherPrefix:
		return "name has another prefix"
	case OtherPrincipal:
		return "other principal"
	case PrincipalCase:
		return "principal differs in case"
	case OtherFamily:
		return "range of the other address family"
	case OutsideRange:
		return "address outside the range"
	case UnparsableRange:
		return "not a valid range, matches nobody"
	case OtherHost:
		return "other address"
	case HostSpelling:
		return "same address, other text: never matches"
	case HostName:
		return "not an address: names are never resolved"
	case OtherOperation:
		return "other operation"
	case DenyImpliesNothing:
		return "DENY implies no other operation"
	}
	return "unknown"
}

// Candidate is a rule that was looked at, and what came of it.
type Candidate struct {
	Binding  Binding
	Mismatch Mismatch
}

// Explanation is a decision with everything that went into it.
type Explanation struct {
	Reason
	// Candidates are the rules about the resource, then near misses: rules for the principal that are about other resources
	// of the type. They are in the order in which Kafka looks at them.
	Candidates []Candidate
	More       int // candidates beyond those that are listed
}

// mostCandidates bounds an explanation.
const mostCandidates = 1000

// Reason answers a query and names what decided: among several rules the one that Kafka names, which is the first DENY or the
// last ALLOW in its order (StandardAuthorizerData.findAclRule, StandardAcl.compareTo). It takes microseconds, however many
// rules there are, and waits for nobody longer than a decision does.
func (a *Authorizer) Reason(q Query) Reason {
	if a.super(q.Principal) {
		return Reason{Allowed: true, Rule: SuperUser}
	}
	covered, deny, allow := a.Index.deciding(q)
	switch {
	case deny != nil:
		return Reason{Rule: MatchingRule, Deciding: deny}
	case allow != nil:
		return Reason{Allowed: true, Rule: MatchingRule, Deciding: allow}
	case !covered && a.AllowEveryone:
		return Reason{Allowed: true, Rule: DefaultAllow}
	}
	return Reason{}
}

// deciding finds the first DENY and the last ALLOW that apply to a query.
func (x *Index) deciding(q Query) (covered bool, deny, allow *Binding) {
	if q.Type < 0 || int(q.Type) >= len(x.types) {
		return false, nil, nil
	}
	allows, denies := allowedBy(q.Operation), deniedBy(q.Operation)
	x.mu.RLock()
	defer x.mu.RUnlock()
	own, everybody := x.caller(q.Principal)
	x.types[q.Type].covering(q.Name, func(p *pattern) bool {
		covered = true
		for _, who := range []*principal{own, everybody} {
			for _, r := range p.grants[who].matching(q.Client, allows|denies) {
				b := r.binding(p, who)
				switch {
				case b.Permission == Deny:
					if maskOf(b.Operation)&denies != 0 && (deny == nil || compareAsKafka(b, *deny) < 0) {
						deny = &b
					}
				case allow == nil || compareAsKafka(b, *allow) > 0:
					allow = &b
				}
			}
		}
		return true
	})
	return covered, deny, allow
}

// Explain answers a query and says why, rule by rule. It may take long where very many rules are about one resource.
func (a *Authorizer) Explain(q Query) Explanation {
	e := Explanation{Reason: a.Reason(q)}
	rules := a.Index.about(q)
	rules = append(rules, a.Index.nearMisses(q)...)
	e.More = max(0, len(rules)-mostCandidates)
	for _, b := range rules[:min(len(rules), mostCandidates)] {
		e.Candidates = append(e.Candidates, Candidate{b, WhyNot(b, q)})
	}
	return e
}

// about lists the rules about a query's resource, for anybody, in Kafka's order.
func (x *Index) about(q Query) (rules []Binding) {
	if q.Type < 0 || int(q.Type) >= len(x.types) {
		return nil
	}
	x.changing.Lock() // decisions go on
	x.types[q.Type].covering(q.Name, func(p *pattern) bool {
		for who, g := range p.grants {
			for r := range g.rules.all() {
				rules = append(rules, r.binding(p, who))
			}
		}
		return true
	})
	x.changing.Unlock()
	slices.SortFunc(rules, compareAsKafka)
	return rules
}

// nearMisses lists rules for a query's principal about other resources of the type.
func (x *Index) nearMisses(q Query) []Binding {
	x.changing.Lock()
	var rules []Binding
	if own, _ := x.caller(q.Principal); own != nil {
		for p, g := range own.patterns {
			if p.Type != q.Type || p.Covers(q.Name) {
				continue
			}
			for r := range g.rules.all() {
				rules = append(rules, r.binding(p, own))
			}
		}
	}
	x.changing.Unlock()
	slices.SortFunc(rules, compareAsKafka)
	return rules
}

// compareAsKafka orders rules as Kafka looks at them: names backwards, then what the others differ in, and the rules for every
// name last (StandardAcl.compareTo).
func compareAsKafka(a, b Binding) int {
	return cmp.Or(
		cmp.Compare(a.Type, b.Type),
		compareBool(a.isForAnyName(), b.isForAnyName()),
		strings.Compare(b.Name, a.Name),
		cmp.Compare(a.Kind, b.Kind),
		cmp.Compare(a.Operation, b.Operation),
		strings.Compare(a.Principal, b.Principal),
		strings.Compare(a.Host, b.Host),
		cmp.Compare(a.Permission, b.Permission),
	)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func (b Binding) isForAnyName() bool { return b.Kind == Literal && b.Name == AnyName }

// WhyNot tells why a rule has no say in a query, or that it [Applies]. It looks at the rule alone.
func WhyNot(b Binding, q Query) Mismatch {
	switch {
	case b.Type != q.Type:
		return OtherType
	case !b.Covers(q.Name) && b.Kind == Prefixed:
		return OtherPrefix
	case !b.Covers(q.Name):
		return OtherResource
	}
	if m := whyNotPrincipal(b.Principal, q.Principal); m != Applies {
		return m
	}
	if m := whyNotHost(b.Host, q); m != Applies {
		return m
	}
	matching := allowedBy(q.Operation)
	if b.Permission == Deny {
		matching = deniedBy(q.Operation)
	}
	switch own := maskOf(b.Operation); {
	case matching&own != 0:
		return Applies
	case allowedBy(q.Operation)&own != 0:
		return DenyImpliesNothing
	}
	return OtherOperation
}

func whyNotPrincipal(rules, asking string) Mismatch {
	switch {
	case asking == Everybody: // see [Index.caller]
		return OtherPrincipal
	case rules == asking, rules == Everybody:
		return Applies
	case strings.EqualFold(rules, asking):
		return PrincipalCase
	}
	return OtherPrincipal
}

func whyNotHost(text string, q Query) Mismatch {
	if Matches(text, q.Client) {
		return Applies
	}
	if IsCIDR(text) {
		p, err := ParseCIDR(text)
		switch {
		case err != nil:
			return UnparsableRange
		case p.Addr().Is4() != plain(q.Client).Is4():
			return OtherFamily
		}
		return OutsideRange
	}
	a, ok := looseAddr(text)
	switch {
	case !ok:
		return HostName
	case plain(a) == plain(q.Client):
		return HostSpelling
	}
	return OtherHost
}
