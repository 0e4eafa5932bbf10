package audit

import (
	"fmt"
	"net/netip"
	"strconv"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// group is what rules have in common that differ in their hosts only.
type group struct {
	acl.Pattern

	principal  string
	operation  acl.Operation
	permission acl.Permission
}

func groupOf(b acl.Binding) group {
	return group{b.Pattern, b.Principal, b.Operation, b.Permission}
}

// groups puts rules that differ in their hosts only together, in the order in which the first of each comes.
func groups(rules []acl.Binding) ([]group, map[group][]acl.Binding) {
	var order []group
	of := map[group][]acl.Binding{}
	for _, b := range rules {
		g := groupOf(b)
		if _, ok := of[g]; !ok {
			order = append(order, g)
		}
		of[g] = append(of[g], b)
	}
	return order, of
}

// Rewritten is a set of rules written anew, with the same decisions.
type Rewritten struct {
	Rules     []acl.Binding
	Addresses int // boundary addresses at which old and new rules were compared, and agreed
}

// Fold writes hosts as the fewest ranges that cover exactly the same addresses: for each principal, resource, operation
// and permission, never one address more. What matches nobody, and exact addresses with a zone, are kept as they are. An
// error would be a fault of Fold itself: then nothing is to be used.
func Fold(rules []acl.Binding) (Rewritten, error) {
	var out []acl.Binding
	order, of := groups(rules)
	for _, g := range order {
		out = append(out, foldGroup(of[g])...)
	}
	return proved(rules, out)
}

func foldGroup(rules []acl.Binding) []acl.Binding {
	var kept []acl.Binding
	var ranges []netip.Prefix
	written := map[netip.Prefix]acl.Binding{} // the first rule of each range: it stays as it is where the range does
	seen := map[string]bool{}
	for _, b := range rules {
		if seen[b.Host] {
			continue
		}
		seen[b.Host] = true
		r := reachOf(b.Host)
		if r.none() || r.any || r.zone != "" || r.prefix.Addr().IsUnspecified() && r.prefix.IsSingleIP() {
			kept = append(kept, b)
			continue
		}
		ranges = append(ranges, r.prefix)
		if _, ok := written[r.prefix]; !ok {
			written[r.prefix] = b
		}
	}
	if seen[acl.AnyHost] { // every range is covered already
		return kept
	}
	for _, p := range aggregate(ranges) {
		b, ok := written[p]
		if !ok {
			b = rules[0]
			b.Host = p.String()
		}
		kept = append(kept, b)
	}
	return kept
}

// Expand writes ranges as the exact hosts in them, as Java prints them: for clusters below metadata.version 4.4-IV1, which
// know no ranges. It refuses to make more than limit rules, naming each range that alone is too wide.
func Expand(rules []acl.Binding, limit int) (Rewritten, error) {
	total := 0
	for _, b := range rules {
		n := 1
		if r := reachOf(b.Host); acl.IsCIDR(b.Host) && !r.none() {
			host := r.prefix.Addr().BitLen() - r.prefix.Bits()
			if host >= 31 || 1<<host > limit {
				return Rewritten{}, fmt.Errorf("%s alone would be 2^%d rules, more than %d: %s", b.Host, host, limit, b)
			}
			n = 1 << host
		}
		if total += n; total > limit {
			return Rewritten{}, fmt.Errorf("would be more than %d rules, from this one on: %s", limit, b)
		}
	}
	var out []acl.Binding
	seen := make(map[acl.Binding]bool, total)
	add := func(b acl.Binding) {
		if !seen[b] {
			seen[b] = true
			out = append(out, b)
		}
	}
	for _, b := range rules {
		r := reachOf(b.Host)
		if !acl.IsCIDR(b.Host) || r.none() {
			add(b)
			continue
		}
		for a := r.prefix.Addr(); a.IsValid() && r.prefix.Contains(a); a = a.Next() {
			b.Host = acl.HostText(a)
			add(b)
		}
	}
	return proved(rules, out)
}

// proved compares two sets of rules at every boundary address of both, group by group, asking the authorizer's own index.
// Between boundaries nothing can change, so sets that agree there agree everywhere.
func proved(before, after []acl.Binding) (Rewritten, error) {
	order, old := groups(before)
	_, fresh := groups(after)
	if len(fresh) > len(old) {
		return Rewritten{}, fmt.Errorf("%d kinds of rules became %d", len(old), len(fresh))
	}
	ask := func(of map[group][]acl.Binding) *acl.Authorizer {
		index := acl.NewIndex()
		var all []acl.Binding
		for i, g := range order {
			for _, b := range of[g] {
				b.Pattern = acl.Pattern{Type: acl.Topic, Name: "group " + strconv.Itoa(i), Kind: acl.Literal}
				b.Principal, b.Operation, b.Permission = acl.Everybody, acl.All, acl.Allow
				all = append(all, b)
			}
		}
		index.Add(all...)
		return &acl.Authorizer{Index: index}
	}
	a, b := ask(old), ask(fresh)
	count := 0
	for i, g := range order {
		var hosts []string
		for _, r := range old[g] {
			hosts = append(hosts, r.Host)
		}
		for _, r := range fresh[g] {
			hosts = append(hosts, r.Host)
		}
		for _, client := range witnesses(hosts) {
			q := acl.Query{Principal: "User:x", Client: client, Operation: acl.Read, Type: acl.Topic, Name: "group " + strconv.Itoa(i)}
			if a.Authorize(q) != b.Authorize(q) {
				return Rewritten{}, fmt.Errorf("the rules differ at %s: %s", acl.HostText(client), old[g][0])
			}
			count++
		}
	}
	return Rewritten{after, count}, nil
}
