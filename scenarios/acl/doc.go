// Package acl is the suite that holds the authorizer to Kafka's rules, and CIDR hosts to KIP-1276: over real connections from
// the addresses that the rules are about.
//
// Each file is one promise. Importing the package registers its specs; `brokerlab run acl` and `go test` run them. A spec
// writes down who may do what from where, creates rules, and asks: every answer is a broker's, to a request that needs the
// right. What catches a broker that decides wrongly is held by a promise of its own.
package acl
