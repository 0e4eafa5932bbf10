// Package acl decides who may do what, from where, as Kafka's StandardAuthorizer does, with hosts that may be CIDR ranges (KIP-1276).
//
// It is pure: no I/O, no wire format. A [Binding] is one rule. An [Authorizer] is what a broker asks; its [Index] answers in
// well under a microsecond among a million rules. [Authorizer.Explain] says why, rule by rule.
package acl
