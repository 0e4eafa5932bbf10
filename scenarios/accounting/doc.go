// Package accounting is the suite that holds the kernel's count of connections to what clients did.
//
// Each file is one promise. Importing the package registers its specs; `brokerlab run accounting` and `go test` run
// them.
package accounting
