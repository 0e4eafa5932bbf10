// Package fleet is thousands of Kafka clients in one process, cheap enough that the clients never are what a scenario
// measures: no goroutine and no buffer is held by a client that waits.
//
// The life of a client: a socket is made by its group's [Source] (in the network namespace of a subnet, say), bound to
// its source address and connected; then, as its [Group] says, TLS, ApiVersions with the software's name and version,
// SASL, a push of its configuration and a behaviour. While it waits, one epoll loop watches all sockets, so that what the
// broker does to a client (a FIN, a reset, a TLS alert) is recorded when it happens. A client whose SASL session will end authenticates
// again before (KIP-368), between two requests: the agenda that its requests are on holds the time. [Fleet.CloseWhere] ends clients in a
// chosen way [How]: with a FIN, with a reset, or by vanishing without a packet.
//
// What each client saw is its [Record]: addresses, times of connect, TLS, SASL and first response, and how it ended. A
// failure of a client is never an error of the fleet. An error is what stops the fleet itself, above all a [ShortageError]: too few
// file descriptors, ports or memory on the client's side, checked before the first socket is made.
//
// A fleet speaks just enough of the protocol by itself (kmsg for the messages, crypto/tls and xdg-go/scram for the
// rest). It never retries, reconnects or reads metadata on its own, since each connection is one that a spec counts.
package fleet
