package acl

import (
	"net/netip"
	"slices"
	"strings"
)

// reference decides by looking at every rule: slow, and written from the specification rather than from the index.
type reference struct {
	rules         map[Binding]struct{}
	superUsers    map[string]struct{}
	allowEveryone bool
	ranges        map[string]netip.Prefix // what hosts stand for, read before
}

func (r *reference) authorize(q Query) bool {
	if _, ok := r.superUsers[q.Principal]; ok {
		return true
	}
	var covered, allowed bool
	for b := range r.rules {
		if b.Type != q.Type || !covers(b, q.Name) {
			continue
		}
		covered = true
		if !r.speaksTo(b, q) {
			continue
		}
		switch {
		case b.Permission == Deny && (b.Operation == All || b.Operation == q.Operation):
			return false
		case b.Permission == Allow && slices.Contains(implying(q.Operation), b.Operation):
			allowed = true
		}
	}
	return allowed || (!covered && r.allowEveryone)
}

// deciding is the rule that Kafka names: all of them sorted, the first DENY or else the last ALLOW.
func (r *reference) deciding(q Query) string {
	var apply []Binding
	for b := range r.rules {
		if WhyNot(b, q) == Applies {
			apply = append(apply, b)
		}
	}
	slices.SortFunc(apply, compareAsKafka)
	for _, b := range apply {
		if b.Permission == Deny {
			return b.String()
		}
	}
	if len(apply) > 0 {
		return apply[len(apply)-1].String()
	}
	return ""
}

func covers(b Binding, name string) bool {
	if b.Kind == Literal {
		return b.Name == name || (b.Name == "*" && !strings.HasPrefix(name, "*"))
	}
	return len(b.Name) <= len(name) && name[:len(b.Name)] == b.Name
}

func (r *reference) speaksTo(b Binding, q Query) bool {
	if q.Principal == "User:*" || (b.Principal != q.Principal && b.Principal != "User:*") {
		return false
	}
	if b.Host == "*" || b.Host == HostText(q.Client) {
		return true
	}
	if !strings.Contains(b.Host, "/") {
		return false
	}
	p, ok := r.ranges[b.Host]
	if !ok {
		p, _ = slowCIDR(b.Host) // the zero Prefix contains nothing
		r.ranges[b.Host] = p
	}
	return p.Contains(q.Client.Unmap().WithZone(""))
}

func implying(o Operation) []Operation {
	switch o {
	case Describe:
		return []Operation{All, Describe, Read, Write, Delete, Alter}
	case DescribeConfigs:
		return []Operation{All, DescribeConfigs, AlterConfigs}
	default:
		return []Operation{All, o}
	}
}

// authorizeByType follows Authorizer.authorizeByResourceType step by step.
func (r *reference) authorizeByType(principal string, client netip.Addr, op Operation, t ResourceType) bool {
	if r.authorize(Query{Principal: principal, Client: client, Operation: op, Type: t, Name: "hardcode"}) {
		return true
	}
	allow, deny := map[Pattern]bool{}, map[Pattern]bool{}
	anyName := false
	for b := range r.rules {
		if b.Type != t || !r.speaksTo(b, Query{Principal: principal, Client: client}) || (b.Operation != op && b.Operation != All) {
			continue
		}
		star := b.Kind == Literal && b.Name == "*"
		switch {
		case b.Permission == Deny && star:
			return false
		case b.Permission == Deny:
			deny[b.Pattern] = true
		case star:
			anyName = true
		default:
			allow[b.Pattern] = true
		}
	}
	if anyName {
		return true
	}
	for p := range allow {
		free := p.Kind != Literal || !deny[p]
		for n := 1; n <= len(p.Name); n++ {
			free = free && !deny[Pattern{t, p.Name[:n], Prefixed}]
		}
		if free {
			return true
		}
	}
	return false
}
