package reproduce

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

// Book is a lab file's rules and expectations in the authorizer's words.
type Book struct {
	Node  *topology.Node // the broker that is asked
	Rules []acl.Binding  // the file's own first
	Rows  []Row          // Line of each in Lines
	Lines []int

	authorizer *acl.Authorizer // nil for a broker without one
	mapping    *mapping
	super      map[string]struct{}
}

// Open reads what a lab file says about access. The error joins all problems.
func Open(lab *topology.Lab) (*Book, error) {
	b := &Book{}
	var errs []error
	for i := range lab.Nodes {
		if n := &lab.Nodes[i]; n.Serves() && !lab.Behind(n) {
			b.Node = &lab.Nodes[i]
			break
		}
	}
	if b.Node == nil {
		return nil, errors.New("the lab has no broker")
	}
	for i := range lab.ACLs {
		rule, err := binding(&lab.ACLs[i])
		errs = append(errs, err)
		b.Rules = append(b.Rules, rule)
	}
	if lab.ACLFile != "" {
		more, err := ReadRules(lab.ACLFile)
		errs = append(errs, err)
		b.Rules = append(b.Rules, more...)
	}
	errs = append(errs, b.configure(b.Node.Config))
	for i := range lab.Expect {
		row, err := rowOf(&lab.Expect[i])
		errs = append(errs, err)
		for _, c := range row.Cells {
			if c.Rule > len(b.Rules) {
				errs = append(errs, fmt.Errorf("line %d: %s: there is no rule %d: the last one is %d", lab.Expect[i].Line, c.Operation, c.Rule, len(b.Rules)))
			}
		}
		b.Rows, b.Lines = append(b.Rows, row), append(b.Lines, lab.Expect[i].Line)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return b, nil
}

// configure makes the authorizer of the broker's properties.
func (b *Book) configure(config map[string]string) error {
	super, errSuper := acl.ParseSuperUsers(cmp.Or(config["super.users"], netlab.SuperUsers))
	mapping, errRules := newMapping(cmp.Or(config["ssl.principal.mapping.rules"], netlab.PrincipalRules))
	if err := errors.Join(errSuper, errRules); err != nil {
		return err
	}
	b.super, b.mapping = super, mapping
	if config["authorizer.class.name"] == "" {
		return nil
	}
	index := acl.NewIndex()
	index.Add(b.Rules...)
	b.authorizer = &acl.Authorizer{
		Index: index, SuperUsers: super,
		AllowEveryone: strings.EqualFold(config["allow.everyone.if.no.acl.found"], "true"),
	}
	return nil
}

// binding is a lab file's rule in the authorizer's words.
func binding(a *topology.ACL) (acl.Binding, error) {
	t, errT := acl.ParseResourceType(a.Resource.Type)
	op, errO := acl.ParseOperation(a.Operation)
	kind, errK := acl.ParsePatternType(a.Pattern)
	permission, errP := acl.ParsePermission(a.Permission)
	return acl.Binding{
		Pattern:   acl.Pattern{Type: t, Name: a.Resource.Name, Kind: kind},
		Principal: a.Principal, Host: a.Host, Operation: op, Permission: permission,
	}, errors.Join(errT, errO, errK, errP)
}

func rowOf(e *topology.Expectation) (Row, error) {
	t, err := acl.ParseResourceType(e.Resource.Type)
	errs := []error{err}
	row := Row{Principal: e.Principal, From: e.From, Type: t, Name: e.Resource.Name, Listener: e.Listener}
	for _, o := range e.Operations {
		op, err := acl.ParseOperation(o.Operation)
		errs = append(errs, err)
		row.Cells = append(row.Cells, Expected{op, o.Allow, o.Rule})
	}
	return row, errors.Join(errs...)
}

// explain says what the rules come to.
func (b *Book) explain(principal string, from netip.Addr, t acl.ResourceType, name string, op acl.Operation) (allowed bool, e *acl.Explanation) {
	if b.authorizer == nil {
		return true, nil
	}
	one := b.authorizer.Explain(acl.Query{Principal: principal, Client: from, Operation: op, Type: t, Name: name})
	return one.Allowed, &one
}

// decides tells whether the rule of this number is among those that decide as e does: several may.
func (b *Book) decides(number int, e *acl.Explanation) bool {
	if e == nil {
		return false
	}
	for i := range e.Candidates {
		c := &e.Candidates[i]
		if c.Mismatch == acl.Applies && c.Binding == b.Rules[number-1] && (c.Binding.Permission == acl.Allow) == e.Allowed {
			return true
		}
	}
	return e.Deciding != nil && *e.Deciding == b.Rules[number-1]
}

// ruleText says which rule decides, by its number.
func (b *Book) ruleText(e *acl.Explanation) string {
	switch {
	case e == nil:
		return "no authorizer"
	case e.Deciding == nil:
		return e.String()
	}
	for i, r := range b.Rules {
		if r == *e.Deciding {
			return fmt.Sprintf("%d: %s", i+1, short(r))
		}
	}
	return short(*e.Deciding)
}

// short is a rule in a few words.
func short(r acl.Binding) string {
	name := resourceText(r.Type, r.Name)
	if r.Kind == acl.Prefixed {
		name += "…"
	}
	return fmt.Sprintf("%s %s %s on %s from %s", r.Permission, r.Principal, r.Operation, name, r.Host)
}
