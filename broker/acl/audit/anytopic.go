package audit

import (
	"maps"
	"slices"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// AtLeastOne is the name of a [Change]'s resource where the question is whether there is a topic at all that one may write to.
// Kafka asks that of idempotent producers whom no rule about the cluster lets be one (Authorizer.authorizeByResourceType), and
// the answer does not always follow from those about each topic.
const AtLeastOne = "(at least one)"

// anyTopic compares who may write to at least one topic.
func (d *differ) anyTopic() error {
	hosts, patterns := map[string][]host{}, map[string]int{}
	for _, rules := range [][]acl.Binding{d.a.Rules, d.b.Rules} {
		for _, r := range rules {
			if r.Type == acl.Topic && (r.Operation == acl.Write || r.Operation == acl.All) {
				hosts[r.Principal] = append(hosts[r.Principal], parseHost(r.Host))
				patterns[r.Principal]++
			}
		}
	}
	for _, who := range d.writers(hosts) {
		all := classes(slices.Concat(hosts[who], hosts[acl.Everybody]))
		if d.work += len(all) * (1 + patterns[who] + patterns[acl.Everybody]); d.work > mostDecisions {
			return ErrTooMany
		}
		d.compareAny(who, all)
	}
	return nil
}

func (d *differ) compareAny(who string, all []class) {
	first := Change{Principal: who, Resource: Resource{Type: acl.Topic, Name: AtLeastOne}}
	var allowed, denied *Change
	for _, c := range all {
		was := d.before.AuthorizeByType(who, c.client, acl.Write, acl.Topic)
		is := d.after.AuthorizeByType(who, c.client, acl.Write, acl.Topic)
		first.Witness, first.Allowed, first.Denied = c.client, nil, nil
		switch {
		case is && !was:
			first.Allowed = []acl.Operation{acl.Write}
			allowed = more(allowed, first, c.Range)
		case was && !is:
			first.Denied = []acl.Operation{acl.Write}
			denied = more(denied, first, c.Range)
		}
	}
	for _, c := range []*Change{allowed, denied} {
		if c != nil {
			c.Ranges = clients(c.Ranges)
			d.changes = append(d.changes, *c)
		}
	}
}

// more is a change with one range more; first is what it begins as.
func more(c *Change, first Change, r Range) *Change {
	if c == nil {
		c = &first
	}
	c.Ranges = append(c.Ranges, r)
	return c
}

// writers lists who may have got another answer.
func (d *differ) writers(hosts map[string][]host) []string {
	set := map[string]struct{}{}
	all := d.defaults
	for p, principals := range d.touched {
		if p.Type != acl.Topic {
			continue
		}
		maps.Copy(set, principals)
		_, everybody := principals[acl.Everybody]
		all = all || everybody || d.stricter
	}
	if all {
		set[SomebodyElse] = struct{}{}
		for who := range hosts {
			set[who] = struct{}{}
		}
	}
	for _, who := range d.supers {
		set[who] = struct{}{}
	}
	delete(set, acl.Everybody)
	return slices.Sorted(maps.Keys(set))
}
