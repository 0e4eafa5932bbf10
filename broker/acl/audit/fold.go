package audit

import (
	"fmt"
	"math/big"
	"net/netip"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// Proof is what an equality was checked with: every address at and next to an end of a host, before and after, for every group of
// rules that differ in their host only.
type Proof struct {
	Groups    int
	Addresses int
}

// group is the rules that differ in their host only.
type group struct {
	acl.Binding // without host

	hosts []string
}

// groups parts rules, in the order in which each group begins.
func groups(rules []acl.Binding) []*group {
	var order []*group
	by := make(map[acl.Binding]*group, len(rules))
	for _, b := range rules {
		key := b
		key.Host = ""
		g := by[key]
		if g == nil {
			g = &group{Binding: key}
			by[key] = g
			order = append(order, g)
		}
		g.hosts = append(g.hosts, b.Host)
	}
	return order
}

// Fold writes rules with the fewest hosts that cover exactly the same addresses, for each group of rules that differ in their
// host only. A single address stays one if it was, so that nothing is written as a range that was none. Hosts that match nobody
// stay as they are, and so do exact hosts of scopes with zones: a range would not look at the zone. The proof is of the result.
func Fold(rules []acl.Binding, tell func(done, of int)) ([]acl.Binding, Proof, error) {
	return rewrite(rules, tell, fold)
}

func fold(texts []string) []string {
	var ranges []Range
	var kept []string
	seen := make(map[string]struct{}, len(texts))
	spelled := map[netip.Addr]struct{}{}
	var zoned []netip.Addr
	everywhere := false
	for _, text := range texts {
		if _, twice := seen[text]; twice {
			continue
		}
		seen[text] = struct{}{}
		switch h := parseHost(text); {
		case h.kind == everyone:
			everywhere = true
		case h.kind == nobody:
			kept = append(kept, text)
		case h.kind == exact && hasZones(h.addr):
			zoned = append(zoned, h.addr)
		default:
			if h.kind == exact {
				spelled[h.addr] = struct{}{}
			}
			ranges = append(ranges, rangeOf(h.prefix))
		}
	}
	if everywhere {
		return append([]string{acl.AnyHost}, kept...)
	}
	ranges = union(ranges)
	var hosts []string
	for _, r := range ranges {
		for _, p := range r.Prefixes() {
			text := p.String()
			if _, ok := spelled[p.Addr()]; ok && p.IsSingleIP() {
				text = acl.HostText(p.Addr())
			}
			hosts = append(hosts, text)
		}
	}
	for _, a := range zoned {
		if !within(ranges, a.WithZone("")) {
			hosts = append(hosts, acl.HostText(a))
		}
	}
	return append(hosts, kept...)
}

func within(ranges []Range, a netip.Addr) bool {
	for _, r := range ranges {
		if r.First.BitLen() == a.BitLen() && r.First.Compare(a) <= 0 && a.Compare(r.Last) <= 0 {
			return true
		}
	}
	return false
}

// Expand writes every range as the exact hosts in it, for clusters below 4.4-IV1, which may not be given ranges. It refuses more
// than limit rules, ranges in scopes with zones (an exact host there has to name the zone) and ranges that cannot be parsed. The
// proof is of the result.
func Expand(rules []acl.Binding, limit int, tell func(done, of int)) ([]acl.Binding, Proof, error) {
	total := new(big.Int)
	for _, b := range rules {
		n := big.NewInt(1)
		if acl.IsCIDR(b.Host) {
			p, err := acl.ParseCIDR(b.Host)
			if err != nil {
				return nil, Proof{}, fmt.Errorf("%s: the host %q is no range, and nothing else that an older cluster takes: %w", b, b.Host, err)
			}
			n.Lsh(n, uint(p.Addr().BitLen()-p.Bits()))
			if p.Overlaps(netip.MustParsePrefix("fe80::/10")) || p.Overlaps(netip.MustParsePrefix("fec0::/10")) {
				return nil, Proof{}, fmt.Errorf("%s: the range %s has addresses that clients have with a zone, which exact hosts would have to name", b, b.Host)
			}
		}
		if total.Add(total, n).Cmp(big.NewInt(int64(limit))) > 0 {
			return nil, Proof{}, fmt.Errorf("%s: with the %s addresses of %s there would be more than %d rules", b, n, b.Host, limit)
		}
	}
	return rewrite(rules, tell, expand)
}

func expand(texts []string) []string {
	var hosts []string
	seen := map[string]struct{}{}
	add := func(text string) {
		if _, twice := seen[text]; !twice {
			seen[text] = struct{}{}
			hosts = append(hosts, text)
		}
	}
	for _, text := range texts {
		h := parseHost(text)
		if h.kind != ranged {
			add(text)
			continue
		}
		last := lastOf(h.prefix)
		for a := h.prefix.Addr(); ; a = a.Next() {
			add(acl.HostText(a))
			if a == last {
				break
			}
		}
	}
	return hosts
}

// rewrite gives each group new hosts and proves that they cover the same.
func rewrite(rules []acl.Binding, tell func(done, of int), hosts func([]string) []string) ([]acl.Binding, Proof, error) {
	var all []acl.Binding
	var proof Proof
	parts := groups(rules)
	for i, g := range parts {
		if tell != nil && i%100 == 0 {
			tell(i, len(parts))
		}
		after := hosts(g.hosts)
		n, err := equal(g.hosts, after)
		if err != nil {
			return nil, proof, fmt.Errorf("%s: %w", g.Binding, err)
		}
		proof.Groups++
		proof.Addresses += n
		for _, h := range after {
			b := g.Binding
			b.Host = h
			all = append(all, b)
		}
	}
	return all, proof, nil
}

// equal asks the authorizer about every address at and next to an end of a host, whether it is covered before and after.
func equal(before, after []string) (asked int, err error) {
	r := acl.Binding{Pattern: acl.Pattern{Type: acl.Topic, Name: "t", Kind: acl.Literal}, Principal: "User:u", Operation: acl.Read, Permission: acl.Allow}
	decide := func(texts []string) *acl.Authorizer {
		p := Policy{Rules: make([]acl.Binding, len(texts))}
		for i, text := range texts {
			p.Rules[i] = r
			p.Rules[i].Host = text
		}
		return p.Authorizer()
	}
	a, b := decide(before), decide(after)
	ends := endsOf(before, after)
	for client := range ends {
		q := acl.Query{Principal: r.Principal, Client: client, Operation: r.Operation, Type: r.Type, Name: r.Name}
		if was, is := a.Authorize(q), b.Authorize(q); was != is {
			return 0, fmt.Errorf("the rewritten hosts differ: %s was covered: %t, is: %t", acl.HostText(client), was, is)
		}
	}
	return len(ends), nil
}

// endsOf collects the addresses at and next to the ends of hosts.
func endsOf(lists ...[]string) map[netip.Addr]struct{} {
	ends := map[netip.Addr]struct{}{netip.IPv4Unspecified(): {}, netip.IPv6Unspecified(): {}}
	for _, texts := range lists {
		for _, text := range texts {
			h := parseHost(text)
			if h.kind != exact && h.kind != ranged {
				continue
			}
			first, last := h.prefix.Addr(), lastOf(h.prefix)
			for _, end := range []netip.Addr{first, last, first.Prev(), last.Next(), h.addr} {
				if !end.IsValid() || end.Is4In6() {
					continue
				}
				ends[end] = struct{}{}
				if hasZones(end) {
					ends[end.WithZone(otherZone)] = struct{}{}
				}
			}
		}
	}
	return ends
}
