package audit

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// Code is the kind of a finding.
type Code string

// What lint finds.
const (
	HostSpelling   Code = "host-spelling"   // an address that is not written as Java prints it: never matches
	HostZone       Code = "host-zone"       // an exact host with a zone
	HostPattern    Code = "host-pattern"    // a glob or a part of an address: never matches
	HostRange      Code = "host-range"      // first-last: never matches
	HostName       Code = "host-name"       // a name: never resolved, never matches
	RangeUnparsed  Code = "range-unparsed"  // a slash, but no CIDR: never matches
	RangeMapped    Code = "range-mapped"    // an IPv4-mapped range: refused by Kafka, never matches
	RangeV4Compat  Code = "range-v4-compat" // ::a.b.c.d/n: a range of IPv6, not of IPv4
	RangeHostBits  Code = "range-host-bits" // 10.0.0.5/24 is 10.0.0.0/24
	Duplicate      Code = "duplicate"       // the same addresses written differently
	Hidden         Code = "hidden"          // an ALLOW that a wider DENY takes all effect from
	NoEffect       Code = "no-effect"       // all it does is done by a wider rule
	Foldable       Code = "foldable"        // exact hosts that are fewer CIDR ranges
	OneFamily      Code = "one-family"      // IPv4 only, where clients may come over IPv6
	OtherOperation Code = "operation"       // an operation that the resource type does not have
	NamePattern    Code = "name-pattern"    // a literal name that looks like a glob, or a prefix "*"
	WhoPattern     Code = "principal"       // a principal that no client has
	Invalid        Code = "invalid"         // what Kafka would refuse to create
)

// Finding is one thing about a rule that its author should know.
type Finding struct {
	Code    Code
	Rule    int    // which of the rules, from 0
	Text    string // what is wrong
	Instead string // what to write instead; "" where there is nothing to write
}

// Lint looks for rules that cannot do what they seem to. dualStack says that clients may come over IPv6.
func Lint(rules []acl.Binding, dualStack bool, tell func(done, of int)) []Finding {
	l := linter{rules: rules, hosts: make([]host, len(rules)), twin: map[twinKey]int{}}
	for i, b := range rules {
		l.hosts[i] = parseHost(b.Host)
	}
	l.tables = newTables(rules, l.hosts)
	for i := range rules {
		if tell != nil && i%1000 == 0 {
			tell(i, len(rules))
		}
		l.one(i)
		if !l.duplicate(i) {
			l.covered(i)
		}
	}
	l.groups(dualStack)
	slices.SortStableFunc(l.findings, func(a, b Finding) int { return a.Rule - b.Rule })
	return l.findings
}

type linter struct {
	rules    []acl.Binding
	hosts    []host
	tables   *tables
	twin     map[twinKey]int
	findings []Finding
}

func (l *linter) add(code Code, rule int, text, instead string) {
	l.findings = append(l.findings, Finding{code, rule, text, instead})
}

// one looks at a rule alone.
func (l *linter) one(i int) {
	b := l.rules[i]
	l.host(i)
	checked := b
	if checked.Host != "" {
		checked.Host = acl.AnyHost // hosts have findings of their own
	}
	if r := acl.Validate(checked, 0); r != nil {
		l.add(Invalid, i, r.Message, "")
		return
	}
	if b.Operation != acl.All && !slices.Contains(acl.Operations(b.Type), b.Operation) {
		l.add(OtherOperation, i, fmt.Sprintf("resources of type %s have no operation %s: nothing ever asks for it", b.Type, b.Operation), "one of "+words(acl.Operations(b.Type)))
	}
	switch star := strings.IndexByte(b.Name, '*'); {
	case star < 0 || b.Type == acl.Cluster:
	case b.Kind == acl.Prefixed && b.Name == acl.AnyName:
		l.add(NamePattern, i, `a prefix * is for names that begin with an asterisk, which there are none of`, "pattern LITERAL, name *")
	case b.Kind == acl.Literal && b.Name != acl.AnyName && star == len(b.Name)-1:
		l.add(NamePattern, i, "a literal name is the name itself: an asterisk stands for nothing", fmt.Sprintf("pattern PREFIXED, name %q", b.Name[:star]))
	case b.Name != acl.AnyName:
		l.add(NamePattern, i, "an asterisk inside of a name stands for nothing", "")
	}
	kind, name, _ := acl.SplitPrincipal(b.Principal)
	switch {
	case kind != "User" && strings.EqualFold(kind, "User"):
		l.add(WhoPattern, i, fmt.Sprintf("the type of principals is User, not %s: case counts", kind), "User:"+name)
	case kind != "User":
		l.add(WhoPattern, i, fmt.Sprintf("Kafka's own principals are of type User: without a principal builder that makes %s, nobody is that", kind), "")
	case name == "":
		l.add(WhoPattern, i, "no client has an empty name", "")
	case name != "*" && strings.Contains(name, "*"):
		l.add(WhoPattern, i, "an asterisk inside of a principal stands for nothing: only User:* is everybody", "")
	case strings.TrimSpace(name) != name:
		l.add(WhoPattern, i, "the name has spaces around it, which count", "User:"+strings.TrimSpace(name))
	}
}

func words(ops []acl.Operation) string {
	names := []string{acl.All.String()}
	for _, op := range ops {
		names = append(names, op.String())
	}
	return strings.Join(names, ", ")
}

// host looks at a rule's host alone.
func (l *linter) host(i int) {
	text := l.rules[i].Host
	h := l.hosts[i]
	switch {
	case h.kind == exact && h.addr.Zone() != "":
		l.add(HostZone, i, "the number of a zone is that of the broker's interface, and may be another after a restart", h.prefix.String()+", whatever the zone")
	case h.kind == everyone || h.kind == exact:
	case h.kind == ranged:
		l.ranged(i, h.prefix)
	case acl.IsCIDR(text):
		l.unparsed(i)
	default:
		code, why, instead := lintHost(text)
		l.add(code, i, why, instead)
	}
}

// ranged looks at a range that can be parsed.
func (l *linter) ranged(i int, p netip.Prefix) {
	text := l.rules[i].Host
	address, _, _ := strings.Cut(text, "/")
	if a, err := netip.ParseAddr(address); err == nil && a.Is6() && strings.Contains(address, ".") && strings.HasPrefix(address, "::") && isV4Compatible(a) {
		b := a.As16()
		v4 := netip.AddrFrom4([4]byte(b[12:]))
		bits := p.Bits()
		if bits > 32 {
			bits -= 96
		}
		instead := ""
		if bits >= 0 {
			instead = netip.PrefixFrom(v4, bits).Masked().String()
		}
		l.add(RangeV4Compat, i, "is a range of IPv6 addresses ("+p.String()+") that no IPv4 client is in", instead)
		return
	}
	if single, err := acl.ParseCIDR(address + singleBits(address)); err == nil && single.Addr() != p.Addr() {
		l.add(RangeHostBits, i, "has bits set behind its length: it is all of "+p.String(), p.String())
	}
}

func singleBits(address string) string {
	if strings.Contains(address, ":") {
		return "/128"
	}
	return "/32"
}

// isV4Compatible tells whether the first 96 bits are zero.
func isV4Compatible(a netip.Addr) bool { return netip.MustParsePrefix("::/96").Contains(a) }

// unparsed looks at a host with a slash that is no range.
func (l *linter) unparsed(i int) {
	text := l.rules[i].Host
	_, err := acl.ParseCIDR(text)
	address, length, _ := strings.Cut(text, "/")
	if a, e := netip.ParseAddr(address); e == nil && a.Is4In6() {
		instead := ""
		if p, e := netip.ParsePrefix(text); e == nil && p.Bits() >= 96 {
			instead = netip.PrefixFrom(a.Unmap(), p.Bits()-96).Masked().String()
		}
		l.add(RangeMapped, i, "is an IPv4-mapped range, which Kafka does not take: IPv4 clients are always shown as IPv4", instead)
		return
	}
	instead := ""
	if mask, e := netip.ParseAddr(length); e == nil && mask.Is4() {
		if bits, ok := maskBits(mask); ok {
			if p, e := acl.ParseCIDR(fmt.Sprintf("%s/%d", address, bits)); e == nil {
				instead = p.String()
			}
		}
	} else if p, e := acl.ParseCIDR(strings.TrimSpace(text)); e == nil {
		instead = p.String()
	} else if p, e := netip.ParsePrefix(strings.TrimSpace(text)); e == nil {
		instead = p.Masked().String()
	}
	l.add(RangeUnparsed, i, "is no range, and matches nobody: "+err.Error(), instead)
}

func maskBits(mask netip.Addr) (bits int, ok bool) {
	b := mask.As4()
	n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	for n&(1<<31) != 0 {
		n <<= 1
		bits++
	}
	return bits, n == 0
}

// lintHost looks at a host without slash that matches nobody.
func lintHost(text string) (code Code, why, instead string) {
	trimmed := strings.TrimSpace(text)
	if p, err := acl.ParseCIDR(trimmed + singleBits(trimmed)); err == nil {
		return HostSpelling, "never matches: exact hosts are compared with the text that Java prints", spelled(p)
	}
	if a, err := netip.ParseAddr(trimmed); err == nil {
		plain := a.Unmap().WithZone("")
		return HostSpelling, "never matches: exact hosts are compared with the text that Java prints", spelled(netip.PrefixFrom(plain, plain.BitLen()))
	}
	if first, last, ok := strings.Cut(trimmed, "-"); ok {
		a, errA := netip.ParseAddr(strings.TrimSpace(first))
		b, errB := netip.ParseAddr(strings.TrimSpace(last))
		if errA == nil && errB == nil && a.BitLen() == b.BitLen() && a.Compare(b) <= 0 {
			return HostRange, "never matches: a range is written as CIDR", prefixList(Range{a, b}.Prefixes())
		}
	}
	if p, ok := glob(trimmed); ok {
		return HostPattern, "never matches: an asterisk or a missing part stands for nothing", p.String()
	}
	if strings.Contains(text, "*") {
		return HostPattern, "never matches: an asterisk stands for nothing but alone", ""
	}
	return HostName, "never matches: names are never resolved", "the addresses of that host"
}

// spelled is how to write one address.
func spelled(p netip.Prefix) string {
	if p.Addr().Is4() {
		return acl.HostText(p.Addr())
	}
	return p.String() + " or " + acl.HostText(p.Addr())
}

func prefixList(prefixes []netip.Prefix) string {
	const most = 8
	var texts []string
	for i, p := range prefixes {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(prefixes)-most))
			break
		}
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ", ")
}

// glob reads 10.0.0.*, 10.0.*.*, 10.0.0. and 10.0.0 as the range that they were meant to be.
func glob(text string) (netip.Prefix, bool) {
	octets := strings.Split(strings.TrimSuffix(text, "."), ".")
	for len(octets) > 0 && octets[len(octets)-1] == "*" {
		octets = octets[:len(octets)-1]
	}
	n := len(octets)
	if n == 0 || n > 3 || !strings.Contains(text, ".") {
		return netip.Prefix{}, false
	}
	for len(octets) < 4 {
		octets = append(octets, "0")
	}
	p, err := acl.ParseCIDR(fmt.Sprintf("%s/%d", strings.Join(octets, "."), n*8))
	return p, err == nil
}

// twinKey is what duplicates by spelling share.
type twinKey struct {
	rule acl.Binding // without host
	host host
	text string // of hosts that match nobody
}

// duplicate tells whether a rule before this one covers the same in other words.
func (l *linter) duplicate(i int) bool {
	b := l.rules[i]
	key := twinKey{rule: b, host: l.hosts[i]}
	key.rule.Host = ""
	if l.hosts[i].kind == nobody {
		key.text = b.Host
	}
	if l.hosts[i].kind == exact && !hasZones(l.hosts[i].addr) {
		key.host = host{kind: ranged, prefix: l.hosts[i].prefix}
	}
	first, twice := l.twin[key]
	if !twice {
		l.twin[key] = i
		return false
	}
	text := fmt.Sprintf("is the same as %q of another rule", l.rules[first].Host)
	if l.rules[first].Host == b.Host {
		text = "is there twice"
	}
	l.add(Duplicate, i, text, "nothing: remove it")
	return true
}

// covered tells of a rule whose whole effect is taken or done by wider rules.
func (l *linter) covered(i int) {
	b := l.rules[i]
	effect := effects(b)
	if l.hosts[i].kind == nobody || effect == 0 {
		return
	}
	var denied uint32
	denier, doer := -1, -1
	for j := range l.tables.covering(b, l.hosts[i]) {
		o := l.rules[j]
		hits := effects(o) & effect
		switch {
		case j == i:
		case o.Permission == acl.Deny && b.Permission == acl.Allow:
			if hits&^denied != 0 {
				denied |= hits
				denier = j
			}
		case o.Permission == b.Permission && hits == effect && (j < i || !l.twins(i, j)):
			doer = j // of two that do the same, the first counts
		}
	}
	switch {
	case denied == effect:
		l.add(Hidden, i, "has no effect: "+l.short(denier)+" takes it away", "nothing, or narrow the DENY")
	case doer >= 0:
		l.add(NoEffect, i, "has no effect of its own: "+l.short(doer)+" does the same", "nothing: remove it")
	}
}

// twins tells whether two rules have the same effect for the same principal, resources and addresses.
func (l *linter) twins(i, j int) bool {
	a, b := l.rules[i], l.rules[j]
	return a.Pattern == b.Pattern && a.Principal == b.Principal && effects(a) == effects(b) &&
		l.hosts[i].prefix == l.hosts[j].prefix && (l.hosts[i].kind == everyone) == (l.hosts[j].kind == everyone)
}

// effects is the set of operations that a rule allows or denies, by code.
func effects(b acl.Binding) (set uint32) {
	for _, op := range acl.Operations(b.Type) {
		if b.Permission == acl.Allow && slices.Contains(acl.ImpliedBy(op), b.Operation) || b.Permission == acl.Deny && (b.Operation == op || b.Operation == acl.All) {
			set |= 1 << op
		}
	}
	return set
}

// short is a rule in a few words.
func (l *linter) short(i int) string {
	b := l.rules[i]
	name := b.Name
	if b.Kind == acl.Prefixed {
		name += "…"
	}
	return fmt.Sprintf("%s %s %s on %s %s from %s", b.Permission, b.Principal, b.Operation, b.Type, name, b.Host)
}

// groups looks at rules that differ in their host only.
func (l *linter) groups(dualStack bool) {
	first := make(map[acl.Binding]int, len(l.rules))
	for i, b := range l.rules {
		b.Host = ""
		if _, ok := first[b]; !ok {
			first[b] = i
		}
	}
	for _, g := range groups(l.rules) {
		at := first[g.Binding]
		n := count(g.hosts)
		if n.exacts > 1 && n.everyone == 0 {
			if folded := fold(g.hosts); len(folded) < len(g.hosts) {
				ranges := slices.DeleteFunc(slices.Clone(folded), func(h string) bool { return !acl.IsCIDR(h) })
				l.add(Foldable, at, fmt.Sprintf("%d hosts of this rule are %d when folded", len(g.hosts), len(folded)), list(ranges))
			}
		}
		if dualStack && n.v4 > 0 && n.v6 == 0 && n.everyone == 0 {
			l.add(OneFamily, at, fmt.Sprintf("is for IPv4 clients only (hosts: %d): over IPv6 the same clients are not meant", n.v4), "a rule for their IPv6 range as well")
		}
	}
}

// counts is how many hosts of a kind there are.
type counts struct{ everyone, exacts, v4, v6 int }

func count(hosts []string) (n counts) {
	for _, text := range hosts {
		h := parseHost(text)
		switch {
		case h.kind == everyone:
			n.everyone++
		case h.kind == nobody:
		case h.prefix.Addr().Is4():
			n.v4++
		default:
			n.v6++
		}
		if h.kind == exact {
			n.exacts++
		}
	}
	return n
}

func list(texts []string) string {
	const most = 8
	if len(texts) > most {
		return strings.Join(texts[:most], ", ") + fmt.Sprintf(" and %d more", len(texts)-most)
	}
	return strings.Join(texts, ", ")
}
