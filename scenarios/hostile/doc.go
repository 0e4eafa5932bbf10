// Package hostile is the suite that holds the broker to what broken and malicious clients may cost: one connection each, with
// its reason, never memory in proportion to what they claim, and never the service of others.
//
// Each file is one promise about one kind of attack, with a row of the table for each attack. Importing the package registers
// its specs; `brokerlab run hostile` and `go test` run them.
package hostile
