// Package limits is the suite that holds the broker to Kafka's connection limits and rates, with thousands of clients and the
// kernel as witness.
//
// Exact means: at no instant are more connections served than a limit allows, by high-water marks that the kernel keeps; those that
// are established beyond it are in the accept queue, in the acceptor's hand, or closed and not yet gone. Afterwards no slot is
// missing and every count is what it was. Each file is one promise; importing the package registers its specs, and `brokerlab run
// limits` and `go test` run them.
package limits
