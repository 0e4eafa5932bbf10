package audit

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// reach is the addresses that a rule's host covers: all, one range, or, where it can match nobody, none.
type reach struct {
	any    bool
	prefix netip.Prefix // invalid for none
	zone   string       // of an exact address, which then covers that one only
}

// reachOf reads a host as the authorizer does.
func reachOf(host string) reach {
	if host == acl.AnyHost {
		return reach{any: true}
	}
	if acl.IsCIDR(host) {
		p, _ := acl.ParseCIDR(host) // invalid covers none
		return reach{prefix: p}
	}
	a, err := netip.ParseAddr(host)
	if err != nil || acl.HostText(a) != host {
		return reach{}
	}
	return reach{prefix: netip.PrefixFrom(a.WithZone(""), a.BitLen()), zone: a.Zone()}
}

func (r reach) none() bool { return !r.any && !r.prefix.IsValid() }

// covers tells whether every address of o is one of r.
func (r reach) covers(o reach) bool {
	switch {
	case r.any:
		return true
	case o.any, o.none(), r.none(), r.zone != o.zone && r.zone != "":
		return false
	}
	return r.prefix.Bits() <= o.prefix.Bits() && r.prefix.Contains(o.prefix.Addr())
}

// last is the highest address of a range.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// boundaries are the first and the last address of a range, and those just outside.
func boundaries(p netip.Prefix) []netip.Addr {
	first, end := p.Masked().Addr(), last(p)
	var all []netip.Addr
	for _, a := range []netip.Addr{first, end, first.Prev(), end.Next()} {
		if a.IsValid() {
			all = append(all, a)
		}
	}
	return all
}

// witnesses are addresses of which one, at least, is of each kind that hosts tell apart.
func witnesses(hosts []string) []netip.Addr {
	all := []netip.Addr{netip.AddrFrom4([4]byte{203, 0, 113, 77}), netip.MustParseAddr("2001:db8:ffff:ffff::77")}
	for _, h := range hosts {
		r := reachOf(h)
		if !r.prefix.IsValid() {
			continue
		}
		all = append(all, boundaries(r.prefix)...)
		if r.zone != "" {
			all = append(all, r.prefix.Addr().WithZone(r.zone))
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// aggregate gives the fewest ranges that cover exactly the same addresses.
func aggregate(ranges []netip.Prefix) []netip.Prefix {
	ranges = slices.Clone(ranges)
	slices.SortFunc(ranges, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	var out []netip.Prefix
	for _, p := range ranges {
		if n := len(out); n > 0 && out[n-1].Contains(p.Addr()) {
			continue
		}
		out = append(out, p)
		for n := len(out); n > 1; n-- {
			a, b := out[n-2], out[n-1]
			if a.Bits() != b.Bits() || a.Bits() == 0 || a.Addr().Is4() != b.Addr().Is4() {
				break
			}
			whole := netip.PrefixFrom(a.Addr(), a.Bits()-1).Masked()
			if whole.Addr() != a.Addr() || !whole.Contains(b.Addr()) {
				break
			}
			out = append(out[:n-2], whole)
		}
	}
	return out
}

// cover gives the fewest ranges from one address to another of the same family.
func cover(from, to netip.Addr) []netip.Prefix {
	var out []netip.Prefix
	for from.IsValid() && from.Compare(to) <= 0 {
		bits := from.BitLen()
		for bits > 0 {
			wider := netip.PrefixFrom(from, bits-1)
			if wider.Masked().Addr() != from || last(wider).Compare(to) > 0 {
				break
			}
			bits--
		}
		p := netip.PrefixFrom(from, bits)
		out = append(out, p)
		from = last(p).Next()
	}
	return out
}

// join lists ranges, the first of many.
func join(ranges []netip.Prefix) string {
	const most = 8
	var texts []string
	for i, p := range ranges {
		if i == most {
			texts = append(texts, "…")
			break
		}
		texts = append(texts, p.String())
	}
	return strings.Join(texts, ", ")
}
