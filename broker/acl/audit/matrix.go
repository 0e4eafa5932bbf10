package audit

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// Axes are what a matrix is about; what is empty is taken from the rules.
type Axes struct {
	Principals []string
	Subnets    []netip.Prefix
	Resources  []Resource
}

// Resource is one resource.
type Resource struct {
	Type acl.ResourceType
	Name string
}

// Cell is what a principal may do to a resource from a subnet.
type Cell struct {
	Principal string
	Resource  Resource
	Subnet    netip.Prefix
	Allowed   []acl.Operation // from everywhere in the subnet
	Partly    []acl.Operation // from some of its addresses only
}

// MostCells bounds a matrix.
const MostCells = 200_000

// Matrix answers who may do what from where, for each principal, resource and subnet, in this order.
func Matrix(a *acl.Authorizer, axes Axes) ([]Cell, error) {
	rules := slices.Collect(a.Index.All())
	w := newWorld(rules)
	axes = axes.completed(rules, w)
	if n := len(axes.Principals) * len(axes.Resources) * len(axes.Subnets); n > MostCells {
		return nil, fmt.Errorf("%d principals, %d resources and %d subnets make %d cells, more than %d: name fewer",
			len(axes.Principals), len(axes.Resources), len(axes.Subnets), n, MostCells)
	}
	var cells []Cell
	for _, who := range axes.Principals {
		for _, r := range axes.Resources {
			clients := w.witnesses(cell{who, r.Type, r.Name})
			for _, subnet := range axes.Subnets {
				cells = append(cells, judge(a, Cell{Principal: who, Resource: r, Subnet: subnet}, clients))
			}
		}
	}
	return cells, nil
}

// judge asks at the subnet's first and last address and at each boundary inside of it.
func judge(a *acl.Authorizer, c Cell, clients []netip.Addr) Cell {
	ask := []netip.Addr{c.Subnet.Masked().Addr(), last(c.Subnet)}
	for _, client := range clients {
		if client.Zone() == "" && c.Subnet.Contains(client) {
			ask = append(ask, client)
		}
	}
	for _, op := range acl.Operations(c.Resource.Type) {
		yes := 0
		for _, client := range ask {
			if a.Authorize(acl.Query{Principal: c.Principal, Client: client, Operation: op, Type: c.Resource.Type, Name: c.Resource.Name}) {
				yes++
			}
		}
		switch yes {
		case len(ask):
			c.Allowed = append(c.Allowed, op)
		case 0:
		default:
			c.Partly = append(c.Partly, op)
		}
	}
	return c
}

func (x Axes) completed(rules []acl.Binding, w *world) Axes {
	if len(x.Principals) == 0 {
		x.Principals = w.principals
	}
	if len(x.Resources) == 0 {
		for t := acl.Topic; t <= acl.User; t++ {
			for _, name := range w.names[t] {
				x.Resources = append(x.Resources, Resource{t, name})
			}
		}
	}
	if len(x.Subnets) == 0 {
		for _, b := range rules {
			if p := reachOf(b.Host).prefix; p.IsValid() {
				x.Subnets = append(x.Subnets, p)
			}
		}
		// Some addresses that no range is likely to have stand for elsewhere.
		x.Subnets = append(x.Subnets, netip.MustParsePrefix("203.0.113.77/32"), netip.MustParsePrefix("2001:db8:ffff:ffff::77/128"))
		slices.SortFunc(x.Subnets, func(a, b netip.Prefix) int {
			return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
		})
		x.Subnets = slices.Compact(x.Subnets)
	}
	return x
}
