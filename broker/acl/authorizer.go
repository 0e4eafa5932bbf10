package acl

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Everybody is the principal of rules that hold for every user. It is one of type User only.
const Everybody = "User:*"

// Authorizer answers whether a principal may do something, as Kafka's StandardAuthorizer does. Its fields are not changed
// once it is in use, other than what is in the index.
type Authorizer struct {
	Index         *Index
	SuperUsers    map[string]struct{} // Type:name; they may do everything from everywhere
	AllowEveryone bool                // allow.everyone.if.no.acl.found: what no rule at all is about, whoever it is for
}

// ParseSuperUsers reads the property super.users: Type:name entries between semicolons. The error has all that are none.
func ParseSuperUsers(text string) (map[string]struct{}, error) {
	users := map[string]struct{}{}
	var errs []error
	for entry := range strings.SplitSeq(text, ";") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		if _, _, ok := SplitPrincipal(entry); !ok {
			errs = append(errs, fmt.Errorf("expected a string in format principalType:principalName but got %s", entry))
		}
		users[entry] = struct{}{}
	}
	return users, errors.Join(errs...)
}

// Authorize answers one question. It does not allocate.
func (a *Authorizer) Authorize(q Query) bool {
	if a.super(q.Principal) {
		return true
	}
	v := a.Index.decide(q)
	return v.allowed || (!v.covered && a.AllowEveryone)
}

func (a *Authorizer) super(principal string) bool {
	_, super := a.SuperUsers[principal]
	return super
}

// hardcode is the topic that Kafka asks about first when it is asked about any topic (Authorizer.authorizeByResourceType).
const hardcode = "hardcode"

// AuthorizeByType answers whether a principal may do something to any resource of a type, which is what an idempotent
// producer needs to be true of WRITE on topics (Authorizer.authorizeByResourceType, as corrected by KAFKA-20816). Only rules
// of exactly op, or of ALL, count.
func (a *Authorizer) AuthorizeByType(principal string, client netip.Addr, op Operation, t ResourceType) bool {
	if a.Authorize(Query{Principal: principal, Client: client, Operation: op, Type: t, Name: hardcode}) {
		return true
	}
	return a.Index.any(principal, client, op, t)
}

// AuthorizedOperations is the bit field of what a principal may do to one resource: bit n is the operation of code n.
func (a *Authorizer) AuthorizedOperations(principal string, client netip.Addr, t ResourceType, name string) int32 {
	var bits int32
	for _, op := range Operations(t) {
		if a.Authorize(Query{Principal: principal, Client: client, Operation: op, Type: t, Name: name}) {
			bits |= 1 << op
		}
	}
	return bits
}
