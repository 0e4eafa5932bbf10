package audit

import "github.com/brokerlab/brokerlab/broker/acl"

// Policy is what decides about access.
type Policy struct {
	Rules         []acl.Binding
	SuperUsers    map[string]struct{} // Type:name
	AllowEveryone bool                // allow.everyone.if.no.acl.found
}

// Authorizer indexes the rules.
func (p *Policy) Authorizer() *acl.Authorizer {
	x := acl.NewIndex()
	x.Add(p.Rules...)
	return &acl.Authorizer{Index: x, SuperUsers: p.SuperUsers, AllowEveryone: p.AllowEveryone}
}
