package acl

import (
	"iter"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Index holds rules so that a decision among a million of them takes less than a microsecond. Its methods may be called from
// any goroutine. A decision waits for the change of one rule at most, never for the rest of a bulk load.
//
// A rule is found by resource type, pattern, principal and host, in that order. Hosts are kept as sets of allowed and denied
// operations, so that one look-up of an address answers for all rules that differ in nothing else.
type Index struct {
	changing sync.Mutex   // held by whoever changes the index; to hold it is enough to read all of it
	mu       sync.RWMutex // held, for one rule at a time, while something changes that decisions read
	count    atomic.Int64
	changes  atomic.Uint64

	principals map[string]*principal
	types      [User + 1]resources
}

// resources are the patterns for one type.
type resources struct {
	literal  map[string]*pattern
	prefixed radix
}

// pattern is what is said about the resources of one pattern.
type pattern struct {
	Pattern
	grants map[*principal]*grants
}

// principal is one that rules name, with what they say about it by pattern.
type principal struct {
	name     string
	patterns map[*pattern]*grants
}

// NewIndex returns an index without rules.
func NewIndex() *Index { return &Index{principals: map[string]*principal{}} }

// Changes counts the changes so far: as long as it is the same, so is every decision.
func (x *Index) Changes() uint64 { return x.changes.Load() }

// Len is the number of rules.
func (x *Index) Len() int { return int(x.count.Load()) }

// Add adds rules. One that is there already changes nothing. Rules that [Validate] refuses must not be added, but a host that
// is no address and no range only matches nothing.
func (x *Index) Add(rules ...Binding) {
	x.changing.Lock()
	defer x.changing.Unlock()
	for _, b := range rules {
		x.add(b)
	}
}

func (x *Index) add(b Binding) {
	g := x.find(b)
	if g.has(b) {
		return
	}
	h := readHost(b.Host) // parsed outside the lock
	x.mu.Lock()
	defer x.mu.Unlock()
	if g == nil {
		g = x.make(b)
	}
	g.add(b, h)
	x.count.Add(1)
	x.changes.Add(1)
}

// Remove takes rules away. One that is not there changes nothing.
func (x *Index) Remove(rules ...Binding) {
	x.changing.Lock()
	defer x.changing.Unlock()
	for _, b := range rules {
		x.remove(b)
	}
}

func (x *Index) remove(b Binding) {
	g := x.find(b)
	if !g.has(b) {
		return
	}
	h := readHost(b.Host)
	x.mu.Lock()
	rest := g.remove(b, h)
	if g.empty() {
		x.unlink(b)
	}
	x.mu.Unlock()
	x.count.Add(-1)
	for _, s := range rest {
		x.settle(s)
	}
	x.changes.Add(1)
}

// settle corrects what narrower ranges carry. There may be very many, so that decisions go on in between.
func (x *Index) settle(s stale) {
	for chunk := range slices.Chunk(s.updates(), lockedUpdates) {
		x.mu.Lock()
		for _, u := range chunk {
			s.floor.Insert(u.prefix, u.node)
		}
		x.mu.Unlock()
	}
}

// find is where a rule is or would be; nil where nothing is said yet about its principal and pattern.
func (x *Index) find(b Binding) *grants {
	if b.Type < 0 || int(b.Type) >= len(x.types) {
		return nil
	}
	p := x.types[b.Type].pattern(b.Pattern)
	if p == nil {
		return nil
	}
	return p.grants[x.principals[b.Principal]]
}

func (r *resources) pattern(p Pattern) *pattern {
	if p.Kind == Prefixed {
		return r.prefixed.get(p.Name)
	}
	return r.literal[p.Name]
}

func (x *Index) make(b Binding) *grants {
	r := &x.types[b.Type]
	p := r.pattern(b.Pattern)
	if p == nil {
		p = &pattern{Pattern: b.Pattern, grants: map[*principal]*grants{}}
		if b.Kind == Prefixed {
			r.prefixed.put(b.Name, p)
		} else {
			if r.literal == nil {
				r.literal = map[string]*pattern{}
			}
			r.literal[b.Name] = p
		}
	}
	who := x.principals[b.Principal]
	if who == nil {
		who = &principal{name: b.Principal, patterns: map[*pattern]*grants{}}
		x.principals[b.Principal] = who
	}
	g := &grants{}
	p.grants[who], who.patterns[p] = g, g
	return g
}

// unlink forgets a pattern and a principal that no rule is about any more.
func (x *Index) unlink(b Binding) {
	r := &x.types[b.Type]
	p, who := r.pattern(b.Pattern), x.principals[b.Principal]
	delete(p.grants, who)
	delete(who.patterns, p)
	if len(who.patterns) == 0 {
		delete(x.principals, who.name)
	}
	if len(p.grants) > 0 {
		return
	}
	if b.Kind == Prefixed {
		r.prefixed.remove(b.Name)
	} else {
		delete(r.literal, b.Name)
	}
}

// Has tells whether a rule is there, byte for byte.
func (x *Index) Has(b Binding) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.find(b).has(b)
}

// All goes over the rules as they were when it began, in no order.
func (x *Index) All() iter.Seq[Binding] {
	return slices.Values(x.Select(AnyFilter()))
}

// Select lists the rules that a filter selects, in no order.
func (x *Index) Select(f Filter) []Binding {
	x.changing.Lock() // decisions go on
	defer x.changing.Unlock()
	var found []Binding
	for p := range x.patterns(f) {
		if !f.matchesPattern(p.Pattern) {
			continue
		}
		for who, g := range p.grants {
			if f.Principal != nil && *f.Principal != who.name {
				continue
			}
			for r := range g.rules.all() {
				if b := r.binding(p, who); f.Matches(b) {
					found = append(found, b)
				}
			}
		}
	}
	return found
}

// patterns goes over those that a filter may select.
func (x *Index) patterns(f Filter) iter.Seq[*pattern] {
	return func(yield func(*pattern) bool) {
		for t := range x.types {
			if f.Type != AnyResource && f.Type != ResourceType(t) {
				continue
			}
			r := &x.types[t]
			if f.Kind == Literal && f.Name != nil {
				if p := r.literal[*f.Name]; p != nil && !yield(p) {
					return
				}
			} else if !r.all(yield) {
				return
			}
		}
	}
}

// all goes over every pattern; false says that yield wanted no more.
func (r *resources) all(yield func(*pattern) bool) bool {
	for _, p := range r.literal {
		if !yield(p) {
			return false
		}
	}
	return r.prefixed.all(yield)
}

// verdict is what rules say about a query.
type verdict struct {
	covered bool // some rule is about the resource, whoever it is for
	allowed bool
}

// decide answers a query: a DENY that matches beats every ALLOW.
func (x *Index) decide(q Query) verdict {
	var v verdict
	if q.Type < 0 || int(q.Type) >= len(x.types) {
		return v
	}
	allows, denies := allowedBy(q.Operation), deniedBy(q.Operation)
	x.mu.RLock()
	defer x.mu.RUnlock()
	own, everybody := x.caller(q.Principal)
	x.types[q.Type].covering(q.Name, func(p *pattern) bool {
		v.covered = true
		m := p.grants[own].at(q.Client).or(p.grants[everybody].at(q.Client))
		if m.deny&denies != 0 {
			v.allowed = false
			return false
		}
		v.allowed = v.allowed || m.allow&allows != 0
		return true
	})
	return v
}

// caller finds whose rules hold for a principal: its own and, for a user, everybody's. Kafka fails for a user who is really
// named "*"; here no rule is that user's.
func (x *Index) caller(name string) (own, everybody *principal) {
	everybody = x.principals[Everybody]
	if name == Everybody {
		return nil, nil
	}
	return x.principals[name], everybody
}

// covering goes over the patterns that apply to a resource's name.
func (r *resources) covering(name string, yield func(*pattern) bool) {
	if p := r.literal[name]; p != nil && !yield(p) {
		return
	}
	if !strings.HasPrefix(name, AnyName) { // see [Pattern.Covers]
		if p := r.literal[AnyName]; p != nil && !yield(p) {
			return
		}
	}
	r.prefixed.prefixesOf(name, yield)
}

// any tells whether rules of exactly op, or of ALL, let a principal do op to some resource of the type: a literal "*" decides,
// then any pattern that is allowed and neither denied itself nor under a prefix that is.
func (x *Index) any(name string, client netip.Addr, op Operation, t ResourceType) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	ops := maskOf(op, All)
	own, everybody := x.caller(name)
	r := &x.types[t]
	at := func(p *pattern) masks {
		if p == nil {
			return masks{}
		}
		return p.grants[own].at(client).or(p.grants[everybody].at(client))
	}
	if m := at(r.literal[AnyName]); m.deny&ops != 0 || m.allow&ops != 0 {
		return m.deny&ops == 0
	}
	for _, who := range []*principal{own, everybody} {
		if who == nil {
			continue
		}
		for p := range who.patterns {
			if p.Type != t {
				continue
			}
			m := at(p)
			if m.allow&ops == 0 || (p.Kind == Literal && m.deny&ops != 0) {
				continue
			}
			free := true
			r.prefixed.prefixesOf(p.Name, func(above *pattern) bool {
				free = at(above).deny&ops == 0
				return free
			})
			if free {
				return true
			}
		}
	}
	return false
}
