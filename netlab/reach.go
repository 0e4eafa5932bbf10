package netlab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/netlab/netns"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

// Who reaches whom is said in the router, by rules that come before its routes. They look at the link that a packet comes in by,
// which no sender can choose.
const (
	cutPriority   = 50  // nothing passes between two members
	facePriority  = 100 // a broker reaches its engine
	fencePriority = 101 // nobody else does
)

// Actions of a rule (see fib_rules.h).
const (
	actBlackhole = 6
	actProhibit  = 8
)

// routerLink is the router's end of the link to the i-th member.
func routerLink(i int) string { return fmt.Sprintf("n%d", i+1) }

// rule is one for what goes to a prefix.
func rule(priority int, to netip.Prefix) *netlink.Rule {
	r := netlink.NewRule()
	r.Priority, r.Dst, r.Family = priority, ipNet(to), netlink.FAMILY_V4
	if to.Addr().Is6() {
		r.Family = netlink.FAMILY_V6
	}
	return r
}

// fence keeps everybody but the brokers of its cluster from each node of kind engine: who knows an engine's address can do
// nothing with it. It runs in the router's namespace.
func fence(lab *topology.Lab, all []member) error {
	index := func(name string) int { return slices.IndexFunc(all, func(m member) bool { return m.name == name }) }
	for i := range lab.Nodes {
		n := &lab.Nodes[i]
		if n.Kind != topology.Engine {
			continue
		}
		for _, to := range all[index(n.Name)].prefixes {
			for _, face := range lab.With(n, topology.Broker) {
				r := rule(facePriority, to)
				r.IifName, r.Table = routerLink(index(face.Name)), unix.RT_TABLE_MAIN
				if err := netlink.RuleAdd(r); err != nil {
					return fmt.Errorf("let %s reach %s: %w", face.Name, n.Name, err)
				}
			}
			r := rule(fencePriority, to)
			r.Type = actProhibit
			if err := netlink.RuleAdd(r); err != nil {
				return fmt.Errorf("keep others from %s: %w", n.Name, err)
			}
		}
	}
	return nil
}

// Cut lets no packet pass between two members of the lab, nodes or subnets, in either direction, as if a cable between them were
// broken: neither learns of it, and what each has to do with others goes on. Cutting twice is fine.
func (l *Lab) Cut(ctx context.Context, a, b string) error {
	return l.between(ctx, "cut", a, b, func(r *netlink.Rule) error {
		if err := netlink.RuleAdd(r); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		return nil
	})
}

// Heal takes back what [Lab.Cut] did.
func (l *Lab) Heal(ctx context.Context, a, b string) error {
	return l.between(ctx, "heal", a, b, func(r *netlink.Rule) error {
		if err := netlink.RuleDel(r); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
		return nil
	})
}

// between does something to the rules that keep a and b apart.
func (l *Lab) between(ctx context.Context, what, a, b string, do func(*netlink.Rule) error) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	all := members(l.state.Lab)
	var ends [2]int
	for i, name := range []string{a, b} {
		ends[i] = slices.IndexFunc(all, func(m member) bool { return m.name == name })
		if ends[i] < 0 {
			return fmt.Errorf("%s %s and %s: %w", what, a, b, l.noPlace(name))
		}
	}
	if a == b {
		return fmt.Errorf("%s %s and %s: want two of them", what, a, b)
	}
	router, err := netns.Open(l.home.netns(routerName))
	if err != nil {
		return err
	}
	defer router.Close() //nolint:errcheck // entered for this only
	return router.Do(func() error {
		for i, from := range ends {
			for _, to := range all[ends[1-i]].prefixes {
				r := rule(cutPriority, to)
				r.IifName, r.Type = routerLink(from), actBlackhole
				if err := do(r); err != nil {
					return fmt.Errorf("%s %s and %s: %w", what, a, b, err)
				}
			}
		}
		return nil
	})
}

// cuts is what is cut at this moment, in the order of the lab's members: the router's rules tell.
func (l *Lab) cuts() ([]Cut, error) {
	router, err := netns.Open(l.home.netns(routerName))
	if err != nil {
		return nil, nil // a lab that goes up or down has no router, and nothing that is cut
	}
	defer router.Close() //nolint:errcheck // entered for this only
	var rules []netlink.Rule
	err = router.Do(func() error {
		for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
			some, listErr := netlink.RuleList(family)
			if listErr != nil && !errors.Is(listErr, unix.EOPNOTSUPP) && !errors.Is(listErr, unix.EAFNOSUPPORT) { // no IPv6
				return fmt.Errorf("list the router's rules: %w", listErr)
			}
			rules = append(rules, some...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := members(l.state.Lab)
	var found []Cut
	for i, a := range all {
		for j := i + 1; j < len(all); j++ {
			if slices.ContainsFunc(rules, func(r netlink.Rule) bool { return keepsApart(&r, i, all[j].prefixes) || keepsApart(&r, j, a.prefixes) }) {
				found = append(found, Cut{a.name, all[j].name})
			}
		}
	}
	return found, nil
}

// keepsApart tells whether r is a cut of what goes from the i-th member to one of these prefixes.
func keepsApart(r *netlink.Rule, i int, to []netip.Prefix) bool {
	return r.Priority == cutPriority && r.IifName == routerLink(i) && r.Dst != nil &&
		slices.ContainsFunc(to, func(p netip.Prefix) bool { return ipNet(p).String() == r.Dst.String() })
}
