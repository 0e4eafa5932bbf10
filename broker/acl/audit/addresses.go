package audit

import (
	"net/netip"
	"slices"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// Range is a run of addresses of one family, both ends included.
type Range struct {
	First, Last netip.Addr
}

// String is the range as people read it: every IPv4 address, a CIDR range, one address, or first-last.
func (r Range) String() string {
	prefixes := r.Prefixes()
	switch {
	case r.First == r.Last:
		return acl.HostText(r.First)
	case len(prefixes) == 1 && prefixes[0].Bits() == 0 && r.First.Is4():
		return "every IPv4 address"
	case r.First == netip.IPv6Unspecified() && r.Last == lastOf(netip.PrefixFrom(r.First, 0)):
		return "every IPv6 address"
	case len(prefixes) == 1:
		return prefixes[0].String()
	}
	return r.First.String() + "-" + r.Last.String()
}

// Prefixes is the smallest set of CIDR ranges that is the range.
func (r Range) Prefixes() []netip.Prefix {
	var all []netip.Prefix
	for at := r.First; at.IsValid() && at.Compare(r.Last) <= 0; {
		bits := at.BitLen()
		for bits > 0 {
			wider := netip.PrefixFrom(at, bits-1)
			if wider.Masked().Addr() != at || lastOf(wider).Compare(r.Last) > 0 {
				break
			}
			bits--
		}
		p := netip.PrefixFrom(at, bits)
		all = append(all, p)
		at = lastOf(p).Next()
	}
	return all
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(b)
	return last
}

func rangeOf(p netip.Prefix) Range { return Range{p.Masked().Addr(), lastOf(p)} }

// union sorts ranges, IPv4 first, and joins those that overlap or touch.
func union(ranges []Range) []Range {
	slices.SortFunc(ranges, func(a, b Range) int { return a.First.Compare(b.First) })
	var all []Range
	for _, r := range ranges {
		if n := len(all); n > 0 && all[n-1].First.BitLen() == r.First.BitLen() {
			if end := all[n-1].Last; r.First.Compare(end) <= 0 || r.First == end.Next() {
				if r.Last.Compare(end) > 0 {
					all[n-1].Last = r.Last
				}
				continue
			}
		}
		all = append(all, r)
	}
	return all
}

// clients joins ranges as union does, and over the IPv4-mapped addresses, which no client has.
func clients(ranges []Range) []Range {
	mapped := rangeOf(netip.MustParsePrefix("::ffff:0:0/96"))
	ranges = union(ranges)
	for i := 1; i < len(ranges); i++ {
		if ranges[i-1].Last == mapped.First.Prev() && ranges[i].First == mapped.Last.Next() {
			ranges[i-1].Last = ranges[i].Last
			return slices.Delete(ranges, i, i+1)
		}
	}
	return ranges
}

// hostKind is what a rule's host stands for.
type hostKind uint8

const (
	nobody   hostKind = iota // it never matches
	everyone                 // "*"
	exact                    // one address
	ranged                   // a CIDR range
)

// host is a rule's host, understood.
type host struct {
	kind   hostKind
	addr   netip.Addr   // exact: with its zone
	prefix netip.Prefix // exact and ranged
}

func parseHost(text string) host {
	if text == acl.AnyHost {
		return host{kind: everyone}
	}
	if acl.IsCIDR(text) {
		p, err := acl.ParseCIDR(text)
		if err != nil {
			return host{}
		}
		return host{kind: ranged, prefix: p}
	}
	a, err := netip.ParseAddr(text)
	if err != nil || acl.HostText(a) != text {
		return host{}
	}
	plain := a.WithZone("")
	return host{kind: exact, addr: a, prefix: netip.PrefixFrom(plain, plain.BitLen())}
}

// hasZones tells whether clients of an address carry a zone, which exact hosts have to name and ranges do not look at.
func hasZones(a netip.Addr) bool {
	return a.IsLinkLocalUnicast() && a.Is6() || netip.MustParsePrefix("fec0::/10").Contains(a.WithZone(""))
}

// otherZone is the zone of clients that no rule is about.
const otherZone = "2147483647"

// class is a range of addresses within which no host makes a difference, and one client of it.
type class struct {
	Range

	client netip.Addr
}

// classes cuts all addresses of both families where hosts begin and end. Addresses that rules name with a zone are classes of
// their own. No client has an IPv4-mapped address, so that those are in no class.
func classes(hosts []host) []class {
	mapped := netip.MustParsePrefix("::ffff:0:0/96")
	starts := []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified(), mapped.Addr(), lastOf(mapped).Next()}
	var zoned []class
	for _, h := range hosts {
		if h.kind != exact && h.kind != ranged {
			continue
		}
		r := rangeOf(h.prefix)
		starts = append(starts, r.First)
		if next := r.Last.Next(); next.IsValid() {
			starts = append(starts, next)
		}
		if h.kind == exact && hasZones(h.addr) {
			if h.addr.Zone() != "" {
				zoned = append(zoned, class{r, h.addr})
			}
			zoned = append(zoned, class{r, h.addr.WithZone(otherZone)})
		}
	}
	slices.SortFunc(starts, netip.Addr.Compare)
	starts = slices.Compact(starts)
	all := make([]class, 0, len(starts)+len(zoned))
	for i, first := range starts {
		last := lastOf(netip.PrefixFrom(first, 0))
		if i+1 < len(starts) && starts[i+1].BitLen() == first.BitLen() {
			last = starts[i+1].Prev()
		}
		if !mapped.Contains(first) {
			all = append(all, class{Range{first, last}, first})
		}
	}
	slices.SortFunc(zoned, func(a, b class) int { return a.client.Compare(b.client) })
	return append(all, slices.CompactFunc(zoned, func(a, b class) bool { return a.client == b.client })...)
}
