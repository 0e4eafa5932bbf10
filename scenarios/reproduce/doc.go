// Package reproduce makes a lab of a cluster's rules, and asks whether a lab or a cluster decides as a lab file expects.
//
// The way of a setup: [Plan] takes rules and a server.properties and decides which subnets, users, topics and listeners tell
// the rules' decisions apart, and by [acl.Authorizer] what each decision should be; [Setup.YAML] is the lab file. [Seed] gives
// a lab that is up its topics, rules and SCRAM users. [Check] asks every cell of a file's expectations over real connections
// and gives a [Result] each: what was expected, what was seen, which rule decides.
//
// The package decides nothing about access itself: what should be is the authorizer's word, what is the broker's.
package reproduce
