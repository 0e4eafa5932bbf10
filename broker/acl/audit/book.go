package audit

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// SomebodyElse is the principal that stands for all that no rule names.
const SomebodyElse = "User:somebody-else"

// Resource is a resource, or one that stands for others.
type Resource struct {
	Type acl.ResourceType
	Name string
	// Others says which resources of the type it stands for: "" the one of that name, else those that begin with what Others is but
	// for "*" at its end, and that nothing narrower is about.
	Others string
}

// String is type and name, or which others.
func (r Resource) String() string {
	name := r.Name
	switch {
	case r.Others == acl.AnyName:
		name = "(any other)"
	case r.Others != "":
		name = r.Others + " (any other)"
	}
	return r.Type.String() + " " + name
}

// book holds rules by pattern and principal.
type book struct {
	rules   map[acl.Pattern]map[string][]host
	lengths map[acl.ResourceType][]int // of the prefixes that there are
}

func newBook(policies ...*Policy) *book {
	b := &book{rules: map[acl.Pattern]map[string][]host{}, lengths: map[acl.ResourceType][]int{}}
	lengths := map[acl.ResourceType]map[int]struct{}{}
	for _, p := range policies {
		for _, r := range p.Rules {
			if b.rules[r.Pattern] == nil {
				b.rules[r.Pattern] = map[string][]host{}
				if r.Kind == acl.Prefixed {
					if lengths[r.Type] == nil {
						lengths[r.Type] = map[int]struct{}{}
					}
					lengths[r.Type][len(r.Name)] = struct{}{}
				}
			}
			b.rules[r.Pattern][r.Principal] = append(b.rules[r.Pattern][r.Principal], parseHost(r.Host))
		}
	}
	for t, set := range lengths {
		b.lengths[t] = slices.Sorted(maps.Keys(set))
	}
	return b
}

// covering lists the patterns that apply to a name.
func (b *book) covering(t acl.ResourceType, name string) []acl.Pattern {
	var all []acl.Pattern
	add := func(p acl.Pattern) {
		if _, ok := b.rules[p]; ok {
			all = append(all, p)
		}
	}
	add(acl.Pattern{Type: t, Name: name, Kind: acl.Literal})
	if !strings.HasPrefix(name, acl.AnyName) { // see [acl.Pattern.Covers]
		add(acl.Pattern{Type: t, Name: acl.AnyName, Kind: acl.Literal})
	}
	for _, n := range b.lengths[t] {
		if n > len(name) {
			break
		}
		add(acl.Pattern{Type: t, Name: name[:n], Kind: acl.Prefixed})
	}
	return all
}

// resources gives one resource for each class of names: each name that a rule names, for each prefix the others that begin with
// it, and for each type all the others.
func (b *book) resources() []Resource {
	var all []Resource
	for p := range b.rules {
		switch {
		case p.Type == acl.Cluster:
		case p.Kind == acl.Prefixed:
			if name, ok := b.fresh(p.Type, p.Name); ok {
				all = append(all, Resource{p.Type, name, p.Name + acl.AnyName})
			}
		case p.Name != acl.AnyName:
			all = append(all, Resource{Type: p.Type, Name: p.Name})
		}
	}
	for t := acl.Topic; t <= acl.User; t++ {
		if t == acl.Cluster {
			all = append(all, Resource{Type: t, Name: acl.ClusterName})
		} else if name, ok := b.fresh(t, ""); ok {
			all = append(all, Resource{t, name, acl.AnyName})
		}
	}
	slices.SortFunc(all, func(a, b Resource) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Others, b.Others))
	})
	return all
}

// fresh makes a name that begins with prefix and that no narrower pattern is about.
func (b *book) fresh(t acl.ResourceType, prefix string) (string, bool) {
	if t == acl.User && prefix == "" {
		prefix = "User:"
	}
	const letters = "xyzabcdefghijklmnopqrstuvw0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-_."
	for _, one := range letters {
		if name := prefix + string(one); b.free(t, name, len(prefix)) {
			return name, true
		}
	}
	for _, one := range letters {
		for _, two := range letters {
			if name := prefix + string(one) + string(two); b.free(t, name, len(prefix)) {
				return name, true
			}
		}
	}
	return "", false
}

// free tells whether no rule names the name, nor a prefix of it that is longer than so many bytes.
func (b *book) free(t acl.ResourceType, name string, longer int) bool {
	if _, named := b.rules[acl.Pattern{Type: t, Name: name, Kind: acl.Literal}]; named {
		return false
	}
	for _, n := range b.lengths[t] {
		if n <= longer || n > len(name) {
			continue
		}
		if _, narrower := b.rules[acl.Pattern{Type: t, Name: name[:n], Kind: acl.Prefixed}]; narrower {
			return false
		}
	}
	return true
}

// principals lists who has rules of its own about the patterns, and one for all others.
func (b *book) principals(patterns []acl.Pattern) []string {
	set := map[string]struct{}{SomebodyElse: {}}
	for _, p := range patterns {
		for who := range b.rules[p] {
			if who != acl.Everybody {
				set[who] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// hosts lists the hosts that make a difference to a principal's decisions about the patterns.
func (b *book) hosts(patterns []acl.Pattern, principal string) []host {
	var all []host
	for _, p := range patterns {
		all = append(append(all, b.rules[p][principal]...), b.rules[p][acl.Everybody]...)
	}
	return all
}
