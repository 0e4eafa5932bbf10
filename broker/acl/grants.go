package acl

import (
	"iter"
	"net/netip"
	"slices"
)

// masks are the operations that rules allow and deny.
type masks struct{ allow, deny mask }

func (m masks) or(o masks) masks      { return masks{m.allow | o.allow, m.deny | o.deny} }
func (m masks) without(o masks) masks { return masks{m.allow &^ o.allow, m.deny &^ o.deny} }
func (m masks) contains(o masks) bool { return m.or(o) == m }
func (m masks) isEmpty() bool         { return m == masks{} }
func (p Permission) mask(o Operation) masks {
	if p == Deny {
		return masks{deny: maskOf(o)}
	}
	return masks{allow: maskOf(o)}
}

// grants is what is said about one principal and one pattern.
type grants struct {
	everywhere masks // of rules for any host
	hosts      *hosts
	rules      ruleSet
}

// at is what holds for a client. A nil grants says nothing.
func (g *grants) at(client netip.Addr) masks {
	if g == nil {
		return masks{}
	}
	if g.hosts == nil {
		return g.everywhere
	}
	return g.everywhere.or(g.hosts.at(client))
}

func (g *grants) has(b Binding) bool { return g != nil && g.rules.has(ruleOf(b)) }

func (g *grants) empty() bool { return g.rules.len() == 0 }

func (g *grants) add(b Binding, h host) {
	g.rules.add(ruleOf(b))
	switch h.kind {
	case anyHost:
		g.everywhere = g.everywhere.or(b.Permission.mask(b.Operation))
	case noHost:
	case scopedHost, rangeHost:
		if g.hosts == nil {
			g.hosts = &hosts{}
		}
		g.hosts.add(h, b.Permission.mask(b.Operation))
		g.hosts.note(ruleOf(b), h)
	}
}

// remove takes a rule away. What it returns still carries the rule's masks.
func (g *grants) remove(b Binding, h host) []stale {
	g.rules.remove(ruleOf(b))
	switch h.kind {
	case anyHost:
		g.everywhere = g.everywhere.without(b.Permission.mask(b.Operation))
	case noHost:
	case scopedHost, rangeHost:
		g.hosts.forget(ruleOf(b), h)
		return g.hosts.remove(h, b.Permission.mask(b.Operation))
	}
	return nil
}

// matching lists the rules of some operations whose host a client matches, without a look at the others: those that are written
// in the usual way are asked for by name. A nil grants has none.
func (g *grants) matching(client netip.Addr, ops mask) []rule {
	if g == nil {
		return nil
	}
	texts := []string{AnyHost, HostText(client)}
	var found []rule
	if g.hosts != nil {
		for _, p := range g.hosts.containing(plain(client)) {
			texts = append(texts, spellings(p)...)
			for r := range g.hosts.unusual[p] {
				if ops&maskOf(r.operation) != 0 {
					found = append(found, r)
				}
			}
		}
	}
	slices.Sort(texts)
	for _, text := range slices.Compact(texts) {
		found = append(found, g.written(text, ops)...)
	}
	return found
}

// written lists the rules of some operations for exactly one host.
func (g *grants) written(host string, ops mask) []rule {
	var found []rule
	for op := All; op <= TwoPhaseCommit; op++ {
		if ops&maskOf(op) == 0 {
			continue
		}
		for _, permission := range []Permission{Deny, Allow} {
			if r := (rule{host, op, permission}); g.rules.has(r) {
				found = append(found, r)
			}
		}
	}
	return found
}

// rule is what tells the rules of one grants apart.
type rule struct {
	host       string
	operation  Operation
	permission Permission
}

func ruleOf(b Binding) rule { return rule{b.Host, b.Operation, b.Permission} }

func (r rule) binding(p *pattern, who *principal) Binding {
	return Binding{Pattern: p.Pattern, Principal: who.name, Host: r.host, Operation: r.operation, Permission: r.permission}
}

// ruleSet is a set of rules: a slice while they are few, as they mostly are.
type ruleSet struct {
	few  []rule
	many map[rule]struct{}
}

// fewRules is how many are found by looking at each.
const fewRules = 8

func (s *ruleSet) len() int { return len(s.few) + len(s.many) }

func (s *ruleSet) has(r rule) bool {
	if s.many != nil {
		_, ok := s.many[r]
		return ok
	}
	return slices.Contains(s.few, r)
}

func (s *ruleSet) add(r rule) {
	if s.many == nil && len(s.few) < fewRules {
		s.few = append(s.few, r)
		return
	}
	if s.many == nil {
		s.many = map[rule]struct{}{}
		for _, f := range s.few {
			s.many[f] = struct{}{}
		}
		s.few = nil
	}
	s.many[r] = struct{}{}
}

func (s *ruleSet) remove(r rule) {
	if s.many != nil {
		delete(s.many, r)
		return
	}
	if i := slices.Index(s.few, r); i >= 0 {
		s.few = slices.Delete(s.few, i, i+1)
	}
}

func (s *ruleSet) all() iter.Seq[rule] {
	return func(yield func(rule) bool) {
		for _, r := range s.few {
			if !yield(r) {
				return
			}
		}
		for r := range s.many {
			if !yield(r) {
				return
			}
		}
	}
}
