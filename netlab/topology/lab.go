package topology

import (
	"net/netip"
	"slices"
)

// Lab is a lab as it is to be built: complete, checked, and free of defaults. Nodes, subnets and users are ordered by
// name, with numbers in names compared as numbers.
type Lab struct {
	Name    string   `json:"name"`
	Nodes   []Node   `json:"nodes"`
	Subnets []Subnet `json:"subnets"`
	Users   []User   `json:"users"`
}

// Kinds of nodes.
const (
	Broker = "broker" // this binary's broker
	Exec   = "exec"   // any program
)

// Node is one machine of a lab.
type Node struct {
	Name      string            `json:"name"`
	Kind      string            `json:"kind"`
	Addresses []netip.Addr      `json:"addresses"`
	Config    map[string]string `json:"config,omitempty"`    // broker: what the file sets; the lab's own keys are added where it is built
	Listeners []Listener        `json:"listeners,omitempty"` // broker: without the exposed ones
	Expose    []Expose          `json:"expose,omitempty"`
	Cmd       []string          `json:"cmd,omitempty"` // exec
	Env       map[string]string `json:"env,omitempty"` // exec
	Ports     []uint16          `json:"ports"`         // what it listens on when it is ready, exposed ports included, ascending
}

// Listener is one of a broker's listeners.
type Listener struct {
	Name     string `json:"name"`     // Kafka's listener name, such as SASL_SSL or CLIENTS
	Protocol string `json:"protocol"` // its security protocol, such as SASL_SSL
	Host     string `json:"host"`     // "" for all addresses, IPv4 and IPv6
	Port     uint16 `json:"port"`
}

// Expose is a port of the machine's 127.0.0.1 that leads to the same port of a node.
type Expose struct {
	Port     uint16 `json:"port"`
	Protocol string `json:"protocol"` // of the broker's listener behind it
}

// Subnet is one client network.
type Subnet struct {
	Name     string         `json:"name"`
	Prefixes []netip.Prefix `json:"prefixes"` // canonical, disjoint, at least one
}

// User is one who logs in, by certificate or password.
type User struct {
	Name     string `json:"name"`
	Password string `json:"password"`
}

// Addr is the node's first address of a family, or the zero value when it has none.
func (n *Node) Addr(v6 bool) netip.Addr {
	i := slices.IndexFunc(n.Addresses, func(a netip.Addr) bool { return a.Is6() == v6 })
	if i < 0 {
		return netip.Addr{}
	}
	return n.Addresses[i]
}
