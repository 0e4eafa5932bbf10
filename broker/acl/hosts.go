package acl

import (
	"net/netip"
	"slices"

	"github.com/gaissmai/bart"
)

// hostKind is how a rule's host is looked up.
type hostKind uint8

const (
	noHost     hostKind = iota // no client's address is like that: the rule matches nobody
	anyHost                    // "*"
	scopedHost                 // one exact address whose zone counts
	rangeHost                  // a range, or one exact address
)

// host is a rule's host, read once.
type host struct {
	kind   hostKind
	addr   netip.Addr   // of a scopedHost
	prefix netip.Prefix // of a rangeHost
}

func readHost(text string) host {
	if text == AnyHost {
		return host{kind: anyHost}
	}
	if IsCIDR(text) {
		p, err := ParseCIDR(text)
		if err != nil {
			return host{}
		}
		return host{kind: rangeHost, prefix: p}
	}
	a, ok := exactAddr(text)
	switch {
	case !ok:
		return host{}
	case a.Is6() && (a.Zone() != "" || a.IsLinkLocalUnicast()):
		return host{kind: scopedHost, addr: a}
	}
	return host{kind: rangeHost, prefix: netip.PrefixFrom(a, a.BitLen())}
}

// hosts is what rules say by address. Few ranges are looked at one by one, many are in a tower of tables.
type hosts struct {
	few    []hostMasks
	many   *tower
	scoped map[netip.Addr]masks
	// repeats counts the spellings of a rule beyond the first: 10.0.0.5/8 beside 10.0.0.0/8.
	repeats map[hostMasks]int
	// unusual are the rules whose hosts are not written as [spellings] writes them: 10.0.0.5/8, 10.0.0.0/08.
	unusual map[netip.Prefix]map[rule]struct{}
}

// spellings are the ways in which a range is usually written.
func spellings(p netip.Prefix) []string {
	if p.IsSingleIP() {
		return []string{p.String(), HostText(p.Addr())}
	}
	return []string{p.String()}
}

// note keeps where to find a rule whose host is written unusually.
func (s *hosts) note(r rule, h host) {
	if h.kind != rangeHost || slices.Contains(spellings(h.prefix), r.host) {
		return
	}
	if s.unusual == nil {
		s.unusual = map[netip.Prefix]map[rule]struct{}{}
	}
	if s.unusual[h.prefix] == nil {
		s.unusual[h.prefix] = map[rule]struct{}{}
	}
	s.unusual[h.prefix][r] = struct{}{}
}

func (s *hosts) forget(r rule, h host) {
	if h.kind != rangeHost {
		return
	}
	delete(s.unusual[h.prefix], r)
	if len(s.unusual[h.prefix]) == 0 {
		delete(s.unusual, h.prefix)
	}
}

// containing lists the ranges that contain an address, as rules have them.
func (s *hosts) containing(a netip.Addr) []netip.Prefix {
	var found []netip.Prefix
	for _, f := range s.few {
		if f.prefix.Contains(a) {
			found = append(found, f.prefix)
		}
	}
	if s.many == nil || !a.IsValid() {
		return found
	}
	for _, f := range s.many.floors {
		for p := range f.Supernets(netip.PrefixFrom(a, a.BitLen())) {
			if !slices.Contains(found, p) {
				found = append(found, p)
			}
		}
	}
	return found
}

type hostMasks struct {
	prefix netip.Prefix
	masks  masks
}

// fewHosts is how many ranges are looked at one by one.
const fewHosts = 8

func (s *hosts) at(client netip.Addr) masks {
	var m masks
	if s.scoped != nil {
		m = s.scoped[client.Unmap()]
	}
	a := plain(client)
	for _, f := range s.few {
		if f.prefix.Contains(a) {
			m = m.or(f.masks)
		}
	}
	if s.many != nil {
		m = m.or(s.many.at(a))
	}
	return m
}

func (s *hosts) add(h host, m masks) {
	if h.kind == scopedHost {
		if s.scoped == nil {
			s.scoped = map[netip.Addr]masks{}
		}
		s.scoped[h.addr] = s.scoped[h.addr].or(m)
		return
	}
	if s.own(h.prefix).contains(m) {
		if s.repeats == nil {
			s.repeats = map[hostMasks]int{}
		}
		s.repeats[hostMasks{h.prefix, m}]++
		return
	}
	if s.many != nil {
		s.many.add(h.prefix, m)
		return
	}
	if i := s.index(h.prefix); i >= 0 {
		s.few[i].masks = s.few[i].masks.or(m)
		return
	}
	if len(s.few) < fewHosts {
		s.few = append(s.few, hostMasks{h.prefix, m})
		return
	}
	s.many = &tower{}
	for _, f := range s.few {
		s.many.add(f.prefix, f.masks)
	}
	s.few = nil
	s.many.add(h.prefix, m)
}

func (s *hosts) index(p netip.Prefix) int {
	return slices.IndexFunc(s.few, func(f hostMasks) bool { return f.prefix == p })
}

// own is what rules for exactly this range say.
func (s *hosts) own(p netip.Prefix) masks {
	if s.many != nil {
		return s.many.own(p)
	}
	if i := s.index(p); i >= 0 {
		return s.few[i].masks
	}
	return masks{}
}

func (s *hosts) remove(h host, m masks) []stale {
	if h.kind == scopedHost {
		if s.scoped[h.addr] = s.scoped[h.addr].without(m); s.scoped[h.addr].isEmpty() {
			delete(s.scoped, h.addr)
		}
		return nil
	}
	key := hostMasks{h.prefix, m}
	if s.repeats[key] > 0 {
		s.repeats[key]--
		if s.repeats[key] == 0 {
			delete(s.repeats, key)
		}
		return nil
	}
	if s.many != nil {
		return s.many.remove(h.prefix, m)
	}
	i := s.index(h.prefix)
	if s.few[i].masks = s.few[i].masks.without(m); s.few[i].masks.isEmpty() {
		s.few = slices.Delete(s.few, i, i+1)
	}
	return nil
}

// tower finds all ranges that contain an address, in one look-up a floor. In each floor's table a range carries the masks of
// all wider ones on its floor, so that the longest match speaks for them all. A range that has many others below it on a floor
// goes to the next: to add one is never more work than updating [pushedDown] of them.
type tower struct {
	floors []*bart.Table[node]
}

type node struct {
	own masks // of rules for exactly this range, on this floor
	all masks // and of all wider ones
}

const (
	// pushedDown is how many narrower ranges a new one may have on its floor.
	pushedDown = 64
	// lockedUpdates is how many ranges are updated at once while decisions wait.
	lockedUpdates = 256
)

func (t *tower) at(a netip.Addr) masks {
	var m masks
	for _, f := range t.floors {
		if n, ok := f.Lookup(a); ok {
			m = m.or(n.all)
		}
	}
	return m
}

func (t *tower) own(p netip.Prefix) masks {
	var m masks
	for _, f := range t.floors {
		n, _ := f.Get(p)
		m = m.or(n.own)
	}
	return m
}

func (t *tower) add(p netip.Prefix, m masks) {
	for _, f := range t.floors {
		if addTo(f, p, m) {
			return
		}
	}
	f := &bart.Table[node]{}
	t.floors = append(t.floors, f)
	addTo(f, p, m)
}

// addTo adds to a floor, or tells that too much is below.
func addTo(f *bart.Table[node], p netip.Prefix, m masks) bool {
	var below [pushedDown]netip.Prefix
	n := 0
	for q := range f.Subnets(p) {
		if q == p {
			continue
		}
		if n == len(below) {
			return false
		}
		below[n] = q
		n++
	}
	above, _ := f.LookupPrefix(p)
	f.Modify(p, func(v node, _ bool) (node, bool) {
		return node{own: v.own.or(m), all: v.all.or(above.all).or(m)}, false
	})
	for _, q := range below[:n] {
		f.Modify(q, func(v node, _ bool) (node, bool) { return node{v.own, v.all.or(m)}, false })
	}
	return true
}

// stale is a range whose narrower ones on a floor still carry masks that it no longer hands down.
type stale struct {
	floor  *bart.Table[node]
	prefix netip.Prefix
	all    masks
}

// remove takes masks from a range, but not yet from what it was handed down to.
func (t *tower) remove(p netip.Prefix, m masks) []stale {
	var rest []stale
	for _, f := range t.floors {
		n, ok := f.Get(p)
		gone := masks{n.own.allow & m.allow, n.own.deny & m.deny}
		if !ok || gone.isEmpty() {
			continue
		}
		n.own = n.own.without(gone)
		f.Delete(p)
		above, _ := f.LookupPrefix(p)
		n.all = n.own.or(above.all)
		if !n.own.isEmpty() {
			f.Insert(p, n)
		}
		rest = append(rest, stale{f, p, n.all})
	}
	return rest
}

// update is what a range is to carry.
type update struct {
	prefix netip.Prefix
	node   node
}

// updates are those of the narrower ranges, widest first. To ask for them only reads.
func (s stale) updates() []update {
	var updates []update
	path := []update{{s.prefix, node{all: s.all}}}
	// Subnets come in order, each behind what contains it.
	for q, n := range s.floor.Subnets(s.prefix) {
		if q == s.prefix {
			continue
		}
		for !path[len(path)-1].prefix.Contains(q.Addr()) {
			path = path[:len(path)-1]
		}
		next := update{q, node{own: n.own, all: n.own.or(path[len(path)-1].node.all)}}
		path = append(path, next)
		if next.node != n {
			updates = append(updates, next)
		}
	}
	return updates
}
