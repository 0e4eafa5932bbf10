// Package quota decides whether a connection may exist: Kafka's
// ConnectionQuotas (KIP-402, KIP-612) with KIP-1015's max.ssl.connections.
//
// An acceptor that has taken a socket from the kernel calls
// [Connections.Acquire], which takes Kafka's steps in Kafka's order: it records
// the connection on the rates of the broker and of the listener, waits until
// the delay that they ask for is over and there is a slot, looks at the rate of
// the address, counts the connection, and only then looks at the maximum of the
// address. What it returns is a [Slot], which the connection keeps until it is
// closed and then releases. A limit that is lowered below what is open makes
// [Connections.Exceeded] tell so, and [Slot.Evict] chooses connections to close.
//
// The package does no I/O, starts no goroutine and knows no protocol. It tells
// time by the clock of package time alone.
package quota
