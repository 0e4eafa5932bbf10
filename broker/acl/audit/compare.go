package audit

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// Stranger stands for any user whom no rule names.
const Stranger = "User:stranger"

// Change is a decision that differs between two sets of rules.
type Change struct {
	Principal string
	Operation acl.Operation
	Type      acl.ResourceType
	Name      string     // a resource's: of a prefix, one that nothing else is about
	Allowed   bool       // now; it was the opposite
	Witness   netip.Addr // a client that finds the difference
	Kinds     int        // kinds of addresses that find it
}

// cell is what is asked from every kind of address.
type cell struct {
	principal string
	t         acl.ResourceType
	name      string
}

// Compare lists the decisions that differ between two authorizers that have the same super users and the same
// allow.everyone.if.no.acl.found: not which rules differ, but what comes of it, with an address to see it from.
func Compare(before, after *acl.Authorizer) []Change {
	old, fresh := slices.Collect(before.Index.All()), slices.Collect(after.Index.All())
	all := slices.Concat(old, fresh)
	w := newWorld(all)
	var changes []Change
	operations := map[cell]map[acl.Operation]bool{}
	mark := func(b acl.Binding) {
		principals := []string{b.Principal}
		if b.Principal == acl.Everybody || before.AllowEveryone { // then any rule ends the default for all
			principals = w.principals
		}
		for _, name := range w.namesUnder(b.Pattern) {
			for _, who := range principals {
				c := cell{who, b.Type, name}
				if operations[c] == nil {
					operations[c] = map[acl.Operation]bool{}
				}
				for _, op := range affected(b, before.AllowEveryone) {
					operations[c][op] = true
				}
			}
		}
	}
	for _, b := range old {
		if !after.Index.Has(b) {
			mark(b)
		}
	}
	for _, b := range fresh {
		if !before.Index.Has(b) {
			mark(b)
		}
	}
	for c, ops := range operations {
		clients := w.witnesses(c)
		for op := range ops {
			found := map[bool]*Change{}
			for _, client := range clients {
				q := acl.Query{Principal: c.principal, Client: client, Operation: op, Type: c.t, Name: c.name}
				now := after.Authorize(q)
				if before.Authorize(q) == now {
					continue
				}
				if found[now] == nil {
					found[now] = &Change{c.principal, op, c.t, c.name, now, client, 0}
				}
				found[now].Kinds++
			}
			for _, change := range found {
				changes = append(changes, *change)
			}
		}
	}
	slices.SortFunc(changes, func(a, b Change) int {
		return cmp.Or(strings.Compare(a.Principal, b.Principal), cmp.Compare(a.Type, b.Type), strings.Compare(a.Name, b.Name),
			cmp.Compare(a.Operation, b.Operation), a.Witness.Compare(b.Witness))
	})
	return changes
}

// affected lists the operations of its type about which a rule has a say.
func affected(b acl.Binding, everyone bool) []acl.Operation {
	var ops []acl.Operation
	for _, op := range acl.Operations(b.Type) {
		if everyone || b.Operation == op || b.Operation == acl.All || b.Permission == acl.Allow && slices.Contains(acl.ImpliedBy(op), b.Operation) {
			ops = append(ops, op)
		}
	}
	return ops
}

// world is what rules tell apart: principals, resources, addresses.
type world struct {
	principals []string
	names      map[acl.ResourceType][]string       // sorted: the names of literal patterns, and one fresh name under each prefix and under none
	hosts      map[acl.Pattern]map[string][]string // of a pattern's rules, by principal
	prefixes   map[acl.ResourceType]map[int]bool   // lengths of prefixes
}

func newWorld(rules []acl.Binding) *world {
	w := &world{
		principals: []string{Stranger}, names: map[acl.ResourceType][]string{}, hosts: map[acl.Pattern]map[string][]string{},
		prefixes: map[acl.ResourceType]map[int]bool{},
	}
	for _, b := range rules {
		if b.Principal != acl.Everybody {
			w.principals = append(w.principals, b.Principal)
		}
		if w.hosts[b.Pattern] == nil {
			w.hosts[b.Pattern] = map[string][]string{}
			if b.Kind == acl.Prefixed {
				if w.prefixes[b.Type] == nil {
					w.prefixes[b.Type] = map[int]bool{}
				}
				w.prefixes[b.Type][len(b.Name)] = true
			}
		}
		w.hosts[b.Pattern][b.Principal] = append(w.hosts[b.Pattern][b.Principal], b.Host)
	}
	slices.Sort(w.principals)
	w.principals = slices.Compact(w.principals)
	for p := range w.hosts {
		name := p.Name
		if p.Kind == acl.Prefixed {
			name = w.fresh(p.Type, p.Name)
		} else if name == acl.AnyName {
			name = w.fresh(p.Type, "any")
		}
		w.names[p.Type] = append(w.names[p.Type], name)
	}
	for t, names := range w.names {
		slices.Sort(names)
		w.names[t] = slices.Compact(names)
	}
	return w
}

// fresh is a name that begins with prefix and that no other pattern but those about the prefix itself is about. For the
// cluster there is none but its own.
func (w *world) fresh(t acl.ResourceType, prefix string) string {
	if t == acl.Cluster {
		return acl.ClusterName
	}
	for _, tail := range []string{"", "x", "other", "some-other", "zz-9-plural-z-alpha"} {
		name := prefix + tail
		if tail == "" && prefix != "any" || w.hosts[acl.Pattern{Type: t, Name: name, Kind: acl.Literal}] != nil {
			continue
		}
		inner := false
		for n := range w.prefixes[t] {
			inner = inner || n > 0 && n <= len(name) && (n > len(prefix) || prefix == "any") && w.hosts[acl.Pattern{Type: t, Name: name[:n], Kind: acl.Prefixed}] != nil
		}
		if !inner {
			return name
		}
	}
	return prefix + "\u2026"
}

// namesUnder lists the names that a pattern is about.
func (w *world) namesUnder(p acl.Pattern) []string {
	all := w.names[p.Type]
	switch {
	case p.Kind == acl.Prefixed:
		i, _ := slices.BinarySearch(all, p.Name)
		j := i
		for j < len(all) && strings.HasPrefix(all[j], p.Name) {
			j++
		}
		return all[i:j]
	case p.Name == acl.AnyName:
		return all
	}
	return []string{p.Name}
}

// hostsAbout lists the hosts of the rules that are about a resource, for a principal or for everybody.
func (w *world) hostsAbout(c cell) []string {
	var all []string
	add := func(name string, kind acl.PatternType) {
		of := w.hosts[acl.Pattern{Type: c.t, Name: name, Kind: kind}]
		all = append(append(all, of[c.principal]...), of[acl.Everybody]...)
	}
	add(c.name, acl.Literal)
	if c.name != acl.AnyName {
		add(acl.AnyName, acl.Literal)
	}
	for n := range w.prefixes[c.t] {
		if n <= len(c.name) {
			add(c.name[:n], acl.Prefixed)
		}
	}
	return all
}

func (w *world) witnesses(c cell) []netip.Addr { return witnesses(w.hostsAbout(c)) }
