// Package listing is the suite that holds the list of connections (KIP-1329) to what clients and the kernel know.
//
// Each file is one promise. Importing the package registers its specs; `brokerlab run listing` and `go test` run them.
package listing
