package topology

import (
	"net/netip"
	"slices"
)

// claim is a prefix and what uses it.
type claim struct {
	prefix netip.Prefix
	owner  string
}

// table holds disjoint prefixes, ordered by address.
type table struct{ claims []claim }

// search gives the place of the first claim at or after a.
func (t *table) search(a netip.Addr) int {
	i, _ := slices.BinarySearchFunc(t.claims, a, func(c claim, a netip.Addr) int { return c.prefix.Addr().Compare(a) })
	return i
}

// overlap finds a claim that shares an address with p. Claims are disjoint, so it is the one before p's place or the one at it.
func (t *table) overlap(p netip.Prefix) (claim, bool) {
	i := t.search(p.Addr())
	for _, k := range []int{i - 1, i} {
		if k >= 0 && k < len(t.claims) && t.claims[k].prefix.Overlaps(p) {
			return t.claims[k], true
		}
	}
	return claim{}, false
}

// add claims p, which must be free.
func (t *table) add(p netip.Prefix, owner string) {
	t.claims = slices.Insert(t.claims, t.search(p.Addr()), claim{p, owner})
}

// cut finds the first free prefix of the length in pool, at or after the address from.
func (t *table) cut(pool netip.Prefix, from netip.Addr, bits int) (netip.Prefix, bool) {
	for from.IsValid() && pool.Contains(from) {
		p := netip.PrefixFrom(from, bits).Masked()
		if p.Addr() != from { // from is in the middle of a block: go to the next
			from = last(p).Next()
			continue
		}
		by, taken := t.overlap(p)
		if !taken {
			return p, true
		}
		from = last(p).Next()
		if end := last(by.prefix); end.Compare(last(p)) > 0 { // a larger claim: step over all of it
			from = end.Next()
		}
	}
	return netip.Prefix{}, false
}

// last is the highest address of p.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
