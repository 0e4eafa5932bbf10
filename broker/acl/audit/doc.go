// Package audit answers questions about whole sets of rules: which decisions a change of them changes, what is allowed from
// where, which rules can never do what they seem to, and how to write the same with fewer or with older hosts.
//
// Everything rests on classes. The hosts of rules cut the addresses of each family into ranges within which every decision is the
// same, and the patterns of rules cut names likewise, so that one address a range and one name a class stand for all. Whatever
// is concluded from classes is decided by [acl.Authorizer] itself, never by a second opinion of this package.
package audit
