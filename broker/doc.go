// Package broker is a Kafka broker made to be looked at: it speaks Kafka's protocol on Kafka's
// listeners, and knows who is connected to it, from where and how.
//
// The life of a broker: [LoadConfig] reads a server.properties; [New] locks the data directory, opens
// the metadata log and the data plane and binds every listener, or leaves nothing behind;
// [Broker.Serve] serves until its context ends, then gives everything back.
//
// The life of a connection: the kernel completes it, and counts it if a [KernelSource] was given; the
// acceptor of its listener takes it, and one of num.network.threads loops keeps it from then on. On a
// TLS listener a handshake comes first, and a client certificate's name becomes a principal by
// ssl.principal.mapping.rules. On a SASL listener the first requests authenticate. Every request is
// a row in one table of APIs: answered by the front door itself, or by the data plane and then
// completed with the address of the listener it came through. The connection ends with one of a
// closed list of reasons.
//
// Locks: each of the parts has its own, and none calls another with one held. Package network says
// in which order its own are taken; the front door (package api) holds its lock for the alteration of
// broker configs while it waits for the metadata log, and no other.
package broker
