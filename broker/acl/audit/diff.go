package audit

import (
	"errors"
	"maps"
	"net/netip"
	"slices"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// Change is a group of decisions that are not the same under two policies.
type Change struct {
	Principal string // [SomebodyElse] for all that no rule about the resource names
	Resource  Resource
	Ranges    []Range
	Witness   netip.Addr      // one address of the ranges
	Allowed   []acl.Operation // denied before, allowed now
	Denied    []acl.Operation // allowed before, denied now
	Before    acl.Reason      // of the first of those operations, from the witness; none of [AtLeastOne]
	After     acl.Reason
}

// ErrTooMany is that a question has more answers than can be worked out in reasonable time.
var ErrTooMany = errors.New("the rules have too many classes of principals, resources and addresses: ask about fewer of them")

// mostDecisions bounds the work of a comparison or a matrix.
const mostDecisions = 50_000_000

// Diff lists the decisions that change from a to b, all of them: a rule that is written anew but decides the same is no change.
// Those about no topic but [AtLeastOne] come last.
// tell, if not nil, hears how many of how many resources are done.
func Diff(a, b *Policy, tell func(done, of int)) ([]Change, error) {
	d := differ{book: newBook(a, b), a: a, b: b, before: a.Authorizer(), after: b.Authorizer(), touched: touched(a, b)}
	d.defaults = a.AllowEveryone != b.AllowEveryone
	d.stricter = a.AllowEveryone || b.AllowEveryone
	for who := range maps.Keys(a.SuperUsers) {
		if _, still := b.SuperUsers[who]; !still {
			d.supers = append(d.supers, who)
		}
	}
	for who := range maps.Keys(b.SuperUsers) {
		if _, before := a.SuperUsers[who]; !before {
			d.supers = append(d.supers, who)
		}
	}
	resources := d.book.resources()
	for i, r := range resources {
		if tell != nil && i%1000 == 0 {
			tell(i, len(resources))
		}
		patterns := d.book.covering(r.Type, r.Name)
		for _, who := range d.principals(patterns) {
			if err := d.compare(r, patterns, who); err != nil {
				return nil, err
			}
		}
	}
	if err := d.anyTopic(); err != nil {
		return nil, err
	}
	return d.changes, nil
}

// differ is a comparison under way.
type differ struct {
	book          *book
	a, b          *Policy
	before, after *acl.Authorizer
	touched       map[acl.Pattern]map[string]struct{} // whose rules differ, by pattern
	defaults      bool                                // allow.everyone differs
	stricter      bool                                // allow.everyone is on: a rule for one may deny all others
	supers        []string                            // who is a super user in one only
	work          int
	changes       []Change
}

// touched tells where the rules differ.
func touched(a, b *Policy) map[acl.Pattern]map[string]struct{} {
	side := make(map[acl.Binding]uint8, len(a.Rules))
	for _, r := range a.Rules {
		side[r] |= 1
	}
	for _, r := range b.Rules {
		side[r] |= 2
	}
	differing := map[acl.Pattern]map[string]struct{}{}
	for r, s := range side {
		if s == 3 {
			continue
		}
		if differing[r.Pattern] == nil {
			differing[r.Pattern] = map[string]struct{}{}
		}
		differing[r.Pattern][r.Principal] = struct{}{}
	}
	return differing
}

// principals lists whose decisions about a resource may differ.
func (d *differ) principals(patterns []acl.Pattern) []string {
	if d.defaults {
		return slices.Compact(slices.Sorted(slices.Values(append(d.book.principals(patterns), d.supers...))))
	}
	set := map[string]struct{}{}
	all := false
	for _, p := range patterns {
		for who := range d.touched[p] {
			set[who] = struct{}{}
			all = all || who == acl.Everybody || d.stricter
		}
	}
	if all {
		for _, who := range d.book.principals(patterns) {
			set[who] = struct{}{}
		}
	}
	for _, who := range d.supers {
		set[who] = struct{}{}
	}
	delete(set, acl.Everybody)
	return slices.Sorted(maps.Keys(set))
}

func (d *differ) compare(r Resource, patterns []acl.Pattern, who string) error {
	type key struct{ allowed, denied int32 }
	var order []key
	found := map[key]*Change{}
	all := classes(d.book.hosts(patterns, who))
	if d.work += len(all); d.work > mostDecisions {
		return ErrTooMany
	}
	for _, c := range all {
		before := d.before.AuthorizedOperations(who, c.client, r.Type, r.Name)
		after := d.after.AuthorizedOperations(who, c.client, r.Type, r.Name)
		k := key{after &^ before, before &^ after}
		if before == after {
			continue
		}
		change := found[k]
		if change == nil {
			change = &Change{Principal: who, Resource: r, Witness: c.client, Allowed: operations(r.Type, k.allowed), Denied: operations(r.Type, k.denied)}
			op := append(slices.Clone(change.Allowed), change.Denied...)[0]
			q := acl.Query{Principal: who, Client: c.client, Operation: op, Type: r.Type, Name: r.Name}
			change.Before, change.After = d.before.Reason(q), d.after.Reason(q)
			found[k] = change
			order = append(order, k)
		}
		change.Ranges = append(change.Ranges, c.Range)
	}
	for _, k := range order {
		found[k].Ranges = clients(found[k].Ranges)
		d.changes = append(d.changes, *found[k])
	}
	return nil
}

// operations lists those of a bit field.
func operations(t acl.ResourceType, bits int32) []acl.Operation {
	var all []acl.Operation
	for _, op := range acl.Operations(t) {
		if bits&(1<<op) != 0 {
			all = append(all, op)
		}
	}
	return all
}
