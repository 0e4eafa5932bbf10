package audit

import (
	"iter"
	"net/netip"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// tables finds the rules that cover another: a pattern, a principal and a host at least as wide.
type tables struct {
	book *book
	by   map[tableKey]*table
}

type tableKey struct {
	pattern   acl.Pattern
	principal string
}

// table is the rules of a pattern and a principal by host.
type table struct {
	everyone []int
	ranges   map[netip.Prefix][]int
	exacts   map[netip.Addr][]int // in scopes with zones: a range of one address is wider
	lengths  [2][129]bool         // of ranges of IPv4 and of IPv6
}

func newTables(rules []acl.Binding, hosts []host) *tables {
	t := &tables{book: newBook(&Policy{Rules: rules}), by: map[tableKey]*table{}}
	for i, b := range rules {
		key := tableKey{b.Pattern, b.Principal}
		of := t.by[key]
		if of == nil {
			of = &table{ranges: map[netip.Prefix][]int{}, exacts: map[netip.Addr][]int{}}
			t.by[key] = of
		}
		switch h := hosts[i]; {
		case h.kind == everyone:
			of.everyone = append(of.everyone, i)
		case h.kind == exact && hasZones(h.addr):
			of.exacts[h.addr] = append(of.exacts[h.addr], i)
		case h.kind != nobody:
			of.ranges[h.prefix] = append(of.ranges[h.prefix], i)
			of.lengths[family(h.prefix.Addr())][h.prefix.Bits()] = true
		}
	}
	return t
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 0
	}
	return 1
}

// covering goes over the rules that hold for everything that b is about, b among them.
func (t *tables) covering(b acl.Binding, h host) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, p := range t.patterns(b.Pattern) {
			for _, who := range []string{b.Principal, acl.Everybody} {
				if of := t.by[tableKey{p, who}]; of != nil && !of.covering(h, yield) {
					return
				}
				if b.Principal == acl.Everybody {
					break
				}
			}
		}
	}
}

// patterns lists those that cover all of a pattern.
func (t *tables) patterns(p acl.Pattern) []acl.Pattern {
	all := t.book.covering(p.Type, p.Name)
	kept := all[:0]
	for _, o := range all {
		switch {
		case p.Kind == acl.Prefixed && o.Kind == acl.Literal && (o.Name != acl.AnyName || p.Name == acl.AnyName): // one of the names only
		case p.Kind == acl.Literal && p.Name == acl.AnyName && o != p: // a name is not all of them
		default:
			kept = append(kept, o)
		}
	}
	return kept
}

func (of *table) covering(h host, yield func(int) bool) bool {
	each := func(rules []int) bool {
		for _, i := range rules {
			if !yield(i) {
				return false
			}
		}
		return true
	}
	if !each(of.everyone) {
		return false
	}
	if h.kind == everyone {
		return true
	}
	if h.kind == exact && hasZones(h.addr) && !each(of.exacts[h.addr]) {
		return false
	}
	for bits, there := range of.lengths[family(h.prefix.Addr())][:h.prefix.Bits()+1] {
		if !there {
			continue
		}
		if p, err := h.prefix.Addr().Prefix(bits); err == nil && !each(of.ranges[p]) {
			return false
		}
	}
	return true
}
