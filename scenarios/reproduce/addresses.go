package reproduce

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// class is a set of addresses that no rule tells apart, and one of them.
type class struct {
	example netip.Addr
	within  netip.Prefix // the narrowest range that the class is in; the whole family for those in no range
}

// plot is one client network of the lab.
type plot struct {
	name   string
	prefix netip.Prefix
}

// land is the lab's addresses: an example of each class, networks that have them, and addresses for a node.
type land struct {
	classes []class
	plots   []plot
	nodes   []netip.Addr
	notes   []string
}

// survey divides both families' addresses by the ranges of the hosts.
func survey(hosts []string) *land {
	l := &land{}
	var ranges []netip.Prefix
	for _, host := range hosts {
		p, note := rangeOf(host)
		if note != "" {
			l.notes = append(l.notes, note)
		}
		if p.IsValid() {
			ranges = append(ranges, p)
		}
	}
	for _, whole := range []string{"0.0.0.0/0", "::/0"} {
		root := &span{prefix: netip.MustParsePrefix(whole)}
		root.nest(ranges)
		l.divide(root)
	}
	return l
}

// rangeOf is the addresses that a host is about, or none; note tells of a host that matches nobody.
func rangeOf(host string) (p netip.Prefix, note string) {
	switch {
	case host == "*":
		return p, ""
	case acl.IsCIDR(host):
		cidr, err := acl.ParseCIDR(host)
		if err != nil {
			return p, fmt.Sprintf("host %q matches nobody: %v", host, err)
		}
		return cidr, ""
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return p, fmt.Sprintf("host %q matches nobody: it is no address", host)
	}
	a = a.WithZone("").Unmap()
	if acl.HostText(a) != host {
		note = fmt.Sprintf("host %q matches nobody: Kafka prints that address as %s", host, acl.HostText(a))
	}
	return netip.PrefixFrom(a, a.BitLen()), note
}

// span is a range with the ranges inside it, in order.
type span struct {
	prefix netip.Prefix
	inside []*span
}

// nest puts the ranges that lie in s below it.
func (s *span) nest(ranges []netip.Prefix) {
	var mine []netip.Prefix
	for _, p := range ranges {
		if p.Bits() > 0 && p.Addr().BitLen() == s.prefix.Addr().BitLen() {
			mine = append(mine, p.Masked())
		}
	}
	slices.SortFunc(mine, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	open := []*span{s}
	for _, p := range slices.Compact(mine) {
		for !open[len(open)-1].prefix.Contains(p.Addr()) {
			open = open[:len(open)-1]
		}
		one, top := &span{prefix: p}, open[len(open)-1]
		top.inside = append(top.inside, one)
		open = append(open, one)
	}
}

// reserved are ranges that no client of a lab can have an address of.
func reserved(v6 bool) []netip.Prefix {
	if v6 {
		return []netip.Prefix{netip.MustParsePrefix("::/96"), netip.MustParsePrefix("::ffff:0:0/96"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8")}
	}
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"),
		netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("224.0.0.0/3"),
	}
}

// familiar are addresses that nobody has, to stand for elsewhere, and to be a node's.
func familiar(v6 bool) (elsewhere, node []string) {
	if v6 {
		return []string{"2001:db8:ffff::1", "fd00:ffff::1", "2001:2::1"}, []string{"fd00:6c61:62::1", "2001:db8:fffe::1", "2001:2:0:1::1", "fdff::1"}
	}
	return []string{"203.0.113.1", "198.51.100.1", "192.0.2.1"}, []string{"198.18.0.1", "198.19.255.1", "192.0.2.254", "100.127.255.1", "10.255.255.254"}
}

// divide finds networks and examples for all classes of a family.
func (l *land) divide(root *span) {
	v6 := root.prefix.Addr().Is6()
	l.settle(root, merge(root))
	l.examples(root, root)
	elsewhere, node := familiar(v6)
	taken := l.prefixes()
	if a, ok := pick(root, elsewhere, append(slices.Clone(taken), reserved(v6)...)); ok {
		l.classes = append(l.classes, class{a, root.prefix})
		p := netip.PrefixFrom(a, a.BitLen())
		for bits := a.BitLen(); bits >= blockBits(v6); bits-- {
			wider := netip.PrefixFrom(a, bits).Masked()
			if overlapsAny(wider, taken) || overlapsAny(wider, reserved(v6)) || overlapsAny(wider, prefixesOf(root.inside)) {
				break
			}
			p = wider
		}
		l.plots = append(l.plots, plot{map[bool]string{false: "elsewhere", true: "elsewhere6"}[v6], p})
	} else {
		l.notes = append(l.notes, fmt.Sprintf("no %s address is outside of all ranges", family(v6)))
	}
	if a, ok := pick(&span{prefix: root.prefix}, node, append(l.prefixes(), reserved(v6)...)); ok {
		l.nodes = append(l.nodes, a)
	} else {
		l.notes = append(l.notes, fmt.Sprintf("the ranges leave no %s address for a broker", family(v6)))
	}
}

func family(v6 bool) string {
	if v6 {
		return "IPv6"
	}
	return "IPv4"
}

// blockBits is the length of a network that is made for single addresses.
func blockBits(v6 bool) int {
	if v6 {
		return 64
	}
	return 24
}

// merge gives each single address outside of all ranges the network around it, if nothing else is in there.
func merge(root *span) map[netip.Prefix]bool {
	v6 := root.prefix.Addr().Is6()
	blocks := map[netip.Prefix]bool{}
	for _, s := range root.inside {
		if !s.prefix.IsSingleIP() {
			continue
		}
		block := netip.PrefixFrom(s.prefix.Addr(), blockBits(v6)).Masked()
		free := !overlapsAny(block, reserved(v6))
		for _, other := range root.inside {
			free = free && (other.prefix.IsSingleIP() || !other.prefix.Overlaps(block))
		}
		if free {
			blocks[block] = true
		}
	}
	return blocks
}

// settle makes networks of the ranges below s: each range that can be one, and else those inside it.
func (l *land) settle(s *span, blocks map[netip.Prefix]bool) {
	v6 := s.prefix.Addr().Is6()
	for _, block := range slices.SortedFunc(maps.Keys(blocks), func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) }) {
		l.plots = append(l.plots, plot{nameOf(block, len(l.plots)), block})
	}
	for _, one := range s.inside {
		switch {
		case blocks[netip.PrefixFrom(one.prefix.Addr(), blockBits(v6)).Masked()] && one.prefix.IsSingleIP():
		case !overlapsAny(one.prefix, reserved(v6)):
			l.plots = append(l.plots, plot{nameOf(one.prefix, len(l.plots)), one.prefix})
		default:
			l.settle(one, nil)
		}
	}
}

// examples finds an example for every range below s, and a network where none has it.
func (l *land) examples(root, s *span) {
	v6 := root.prefix.Addr().Is6()
	for _, one := range s.inside {
		if a, ok := one.free(reserved(v6)); !ok {
			l.notes = append(l.notes, fmt.Sprintf("no client of a lab can have an address of %s that is in no narrower range", one.prefix))
		} else {
			l.classes = append(l.classes, class{a, one.prefix})
			if !slices.ContainsFunc(l.plots, func(p plot) bool { return p.prefix.Contains(a) }) {
				single := netip.PrefixFrom(a, a.BitLen())
				l.plots = append(l.plots, plot{nameOf(single, len(l.plots)), single})
			}
		}
		l.examples(root, one)
	}
}

// free finds an address of s that is in no range inside it and in none of the others. The first one is left alone if that can be.
func (s *span) free(others []netip.Prefix) (netip.Addr, bool) {
	avoid := append(prefixesOf(s.inside), others...)
	a := s.prefix.Addr()
	for s.prefix.Contains(a) && a.IsValid() {
		i := slices.IndexFunc(avoid, func(p netip.Prefix) bool { return p.Contains(a) })
		if i < 0 {
			next := a.Next()
			if a == s.prefix.Addr() && s.prefix.Bits() < a.BitLen()-1 && s.prefix.Contains(next) &&
				!slices.ContainsFunc(avoid, func(p netip.Prefix) bool { return p.Contains(next) }) {
				return next, true
			}
			return a, true
		}
		a = lastOf(avoid[i]).Next()
	}
	return netip.Addr{}, false
}

// pick takes the first of the known addresses that is in no range inside s and in none of the others, or else any.
func pick(s *span, known []string, others []netip.Prefix) (netip.Addr, bool) {
	avoid := append(prefixesOf(s.inside), others...)
	for _, text := range known {
		a := netip.MustParseAddr(text)
		if !slices.ContainsFunc(avoid, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return a, true
		}
	}
	return s.free(others)
}

func (l *land) prefixes() []netip.Prefix {
	var all []netip.Prefix
	for _, p := range l.plots {
		all = append(all, p.prefix)
	}
	for _, a := range l.nodes {
		all = append(all, netip.PrefixFrom(a, a.BitLen()))
	}
	return all
}

func prefixesOf(spans []*span) []netip.Prefix {
	all := make([]netip.Prefix, len(spans))
	for i, s := range spans {
		all[i] = s.prefix
	}
	return all
}

func overlapsAny(p netip.Prefix, all []netip.Prefix) bool {
	return slices.ContainsFunc(all, p.Overlaps)
}

// lastOf is the highest address of p.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// nameOf makes a subnet's name of its prefix, or of its number where that would be too long.
func nameOf(p netip.Prefix, number int) string {
	const longest = 40
	text := p.String()
	if p.IsSingleIP() {
		text = p.Addr().String()
	}
	name := "net-" + strings.Trim(strings.NewReplacer(".", "-", ":", "-", "/", "-").Replace(text), "-")
	if len(name) > longest {
		return fmt.Sprintf("net-%d", number+1)
	}
	return name
}
