// Package audit judges sets of ACLs: what in them cannot work (Lint), how exact hosts fold into ranges and back (Fold,
// Expand), which decisions differ between two sets (Compare), and who may do what from where (Matrix).
//
// It is pure: no I/O, no wire format. What it says of decisions it has asked of an [acl.Authorizer], at one address of each
// kind that the rules tell apart; so it says it of all addresses.
package audit
