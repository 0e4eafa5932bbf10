package topology

import (
	"cmp"
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
	Topics  []Topic  `json:"topics,omitempty"`
	ACLs    []ACL    `json:"acls,omitempty"`    // of the lab file itself
	ACLFile string   `json:"aclFile,omitempty"` // the path of a file with more

	// Expect is what brokerlab check asks for, in the order of the file. It changes nothing in what is built.
	Expect []Expectation `json:"-"`
}

// Kinds of nodes.
const (
	Broker = "broker" // this binary's broker
	Engine = "engine" // what brokers of one cluster keep their records and their metadata in
	Kafka  = "kafka"  // Apache Kafka
	Exec   = "exec"   // any program
)

// Node is one machine of a lab.
type Node struct {
	Name      string            `json:"name"`
	Kind      string            `json:"kind"`
	Addresses []netip.Addr      `json:"addresses"`
	Version   string            `json:"version,omitempty"`   // kafka: what runs, such as 4.4.0
	Home      string            `json:"home,omitempty"`      // kafka: the folder with it, absolute; "": where versions are kept
	Release   string            `json:"release,omitempty"`   // kafka: the level that storage is formatted at; "": the version's latest
	Cluster   string            `json:"cluster,omitempty"`   // broker, engine, kafka: nodes of one name are one cluster; "": alone
	Config    map[string]string `json:"config,omitempty"`    // broker, kafka: what the file sets; the lab's own keys are added where it is built
	Listeners []Listener        `json:"listeners,omitempty"` // broker, kafka: without the exposed ones
	Expose    []Expose          `json:"expose,omitempty"`
	Cmd       []string          `json:"cmd,omitempty"` // exec
	Env       map[string]string `json:"env,omitempty"` // exec, kafka
	Ports     []uint16          `json:"ports"`         // what it listens on when it is ready, exposed ports included, ascending
}

// Serves tells whether the node is a Kafka broker, ours or Apache's: it has listeners, and clients log in there.
func (n *Node) Serves() bool { return n.Kind == Broker || n.Kind == Kafka }

// ClusterName tells clusters apart: nodes with the same one are one, in which brokers of ours are the faces of the engine or
// of Apache Kafka. A node alone has one that no cluster of a lab file can have. "" for exec.
func (n *Node) ClusterName() string {
	if n.Kind == Exec {
		return ""
	}
	return cmp.Or(n.Cluster, "node "+n.Name)
}

// With are the nodes of these kinds in n's cluster, n itself among them if it is of one.
func (l *Lab) With(n *Node, kinds ...string) []*Node {
	var all []*Node
	for i := range l.Nodes {
		if one := &l.Nodes[i]; one.ClusterName() == n.ClusterName() && slices.Contains(kinds, one.Kind) {
			all = append(all, one)
		}
	}
	return all
}

// EngineServers is the config that says where a broker's engine is.
const EngineServers = "engine.bootstrap.servers"

// Fronts tells whether n is a broker that has its engine elsewhere.
func (n *Node) Fronts() bool {
	return n.Kind == Broker && (n.Cluster != "" || n.Config[EngineServers] != "")
}

// Behind tells whether clients have no business at n: it is Apache Kafka behind brokers of ours, which are its faces.
func (l *Lab) Behind(n *Node) bool { return n.Kind == Kafka && len(l.With(n, Broker)) > 0 }

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
	DN       string `json:"dn,omitempty"` // "": CN=Name
}

// Topic is a topic that brokers have.
type Topic struct {
	Name       string `json:"name"`
	Partitions int    `json:"partitions"`
}

// Resource is what a rule or a question is about. All words are Kafka's, as its enumerations write them.
type Resource struct {
	Type string `json:"type"` // TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN or USER
	Name string `json:"name"`
}

// ACL is a rule of the authorizer. Its host is as it was written: what it means, the broker says.
type ACL struct {
	Principal  string   `json:"principal"`
	Host       string   `json:"host"`
	Operation  string   `json:"operation"`
	Permission string   `json:"permission"` // ALLOW or DENY
	Resource   Resource `json:"resource"`
	Pattern    string   `json:"pattern"` // LITERAL or PREFIXED
}

// Expectation is what one principal may do to one resource from one address.
type Expectation struct {
	Principal  string
	From       netip.Addr
	Resource   Resource
	Listener   string // "": any
	Operations []ExpectedOperation
	Line       int // in the lab file, from 1; 0 for a File that was not parsed from text
}

// ExpectedOperation is what is expected of one operation.
type ExpectedOperation struct {
	Operation string
	Allow     bool
	Rule      int // the number of the rule that decides, from 1; 0: not said
}

// Addr is the node's first address of a family, or the zero value when it has none.
func (n *Node) Addr(v6 bool) netip.Addr {
	i := slices.IndexFunc(n.Addresses, func(a netip.Addr) bool { return a.Is6() == v6 })
	if i < 0 {
		return netip.Addr{}
	}
	return n.Addresses[i]
}
