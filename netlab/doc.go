// Package netlab builds network labs from Linux namespaces and keeps them running: client subnets, a router, and nodes
// that run Kafka brokers or anything else.
//
// A lab's life. [Up] takes a resolved [topology.Lab], claims its name and starts the lab's owner, a process of its own
// ([RunOwner]) that holds whatever must outlive the command: brokers, forwarded ports, kernel counters, logs. The owner
// builds the network, writes certificates and properties, starts the nodes and says when every listener is open. Any
// process can then [Open] the lab by name: enter a [Subnet], dial from any of its addresses, restart a [Node]. [Down]
// kills every process of the lab by its cgroup and removes what the lab's journal names, whatever was killed before,
// and at whatever moment.
//
// The network. Every node and every subnet is a namespace with one point-to-point link to the router, another
// namespace; nothing is ever created in the machine's own namespace, and none of its settings change. A subnet has its
// whole prefix as local addresses, so a client binds any of them as its source. Neighbours are written down, not asked
// for: no ARP, no neighbour discovery, no duplicate address detection. Next hops are 169.254.0.1 and fe80::1.
//
// A lab lives in /run/brokerlab/NAME: journal, state.json, the namespaces (netns/NODE, visible to nsenter --net=PATH but
// not to ip netns, whose folder belongs to others), nodes/NODE with server.properties, log and data, tls, properties, and
// the owner's socket. Its processes are in the cgroup brokerlab/NAME.
package netlab
