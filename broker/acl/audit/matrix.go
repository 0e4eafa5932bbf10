package audit

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// Cell is what a principal may do to a resource from some addresses.
type Cell struct {
	Principal string // [SomebodyElse] for all that no rule about the resource names
	Resource  Resource
	Ranges    []Range
	Witness   netip.Addr // one address of the ranges
	Allowed   []acl.Operation
}

// Want selects what a matrix is about; zero fields select all.
type Want struct {
	Principal string // one, whether or not rules name it
	Type      acl.ResourceType
	Name      string // with Type: one resource, whether or not rules name it
}

// Matrix lists what is allowed from where: for each principal and resource the addresses in groups that may do the same. Groups
// that may do nothing are listed for principals that rules name.
func Matrix(p *Policy, want Want) ([]Cell, error) {
	b, a := newBook(p), p.Authorizer()
	resources := b.resources()
	if want.Name != "" {
		resources = []Resource{{Type: want.Type, Name: want.Name}}
	}
	var cells []Cell
	work := 0
	for _, r := range resources {
		if want.Type != acl.UnknownResource && want.Type != r.Type {
			continue
		}
		patterns := b.covering(r.Type, r.Name)
		principals := b.principals(patterns)
		if want.Principal != "" {
			principals = []string{want.Principal}
		} else {
			principals = slices.Concat(principals, slices.Sorted(maps.Keys(p.SuperUsers)))
			principals = slices.Compact(slices.Sorted(slices.Values(principals)))
		}
		for _, who := range principals {
			all := classes(b.hosts(patterns, who))
			if work += len(all); work > mostDecisions {
				return nil, ErrTooMany
			}
			cells = append(cells, row(a, r, who, all, want.Principal != "" || len(patterns) > 0 && who != SomebodyElse)...)
		}
	}
	return cells, nil
}

// row groups classes that may do the same; nothing says whether those that may do nothing count.
func row(a *acl.Authorizer, r Resource, who string, all []class, nothing bool) []Cell {
	var order []int32
	found := map[int32]*Cell{}
	for _, c := range all {
		bits := a.AuthorizedOperations(who, c.client, r.Type, r.Name)
		if bits == 0 && !nothing {
			continue
		}
		if found[bits] == nil {
			found[bits] = &Cell{Principal: who, Resource: r, Witness: c.client, Allowed: operations(r.Type, bits)}
			order = append(order, bits)
		}
		found[bits].Ranges = append(found[bits].Ranges, c.Range)
	}
	cells := make([]Cell, 0, len(order))
	for _, bits := range order {
		found[bits].Ranges = clients(found[bits].Ranges)
		cells = append(cells, *found[bits])
	}
	return cells
}
