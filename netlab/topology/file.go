package topology

import (
	"fmt"
	"strconv"
)

// File is a lab file as written: every field optional that has a default, nothing checked beyond its shape.
type File struct {
	// The lab's name: the folder below /run/brokerlab, and what lab down and lab exec take.
	Name string `json:"name"`
	// How many brokers of ours there are that are one cluster: nodes broker1, broker2 and so on, of kind broker, which may have further keys below nodes.
	Brokers int `json:"brokers,omitempty" jsonschema:"minimum=1,maximum=100"`
	// What holds the records and groups of these brokers: embedded (this binary's engine, in a node engine) or kafka (Apache Kafka, in as many nodes kafka1, kafka2 and so on). Without it: embedded.
	Engine string `json:"engine,omitempty" jsonschema:"enum=embedded,enum=kafka"`
	// What all nodes of a kind have that do not say otherwise, by kind. Keys of config and env are taken one by one.
	Defaults map[string]FileNode `json:"defaults,omitempty"`
	// Machines by name, each with a network namespace of its own.
	Nodes map[string]FileNode `json:"nodes,omitempty"`
	// Client networks by name, each one namespace in which every address of its prefixes can be a source.
	Subnets map[string]FileSubnet `json:"subnets,omitempty"`
	// People and programs that log in, by name: each gets a client certificate (CN=name), a password, and ready client.properties. Without this key: admin, alice and bob.
	Users map[string]FileUser `json:"users,omitempty"`
	// Topics that brokers have once the lab is up, by name.
	Topics map[string]FileTopic `json:"topics,omitempty"`
	// Rules (ACLs) that brokers have once the lab is up. They count from 1, before those of acl-file.
	ACLs []FileACL `json:"acls,omitempty"`
	// A file of further rules, relative to the lab file: what kafka-acls.sh --list prints, or another format that brokerlab acls import reads.
	ACLFile string `json:"acl-file,omitempty"`
	// What the rules should come to, for brokerlab check: who may do what to what, from where.
	Expect []FileExpectation `json:"expect,omitempty"`
}

// FileNode is one machine.
type FileNode struct {
	// How the node starts: broker (this binary's Kafka broker), engine (what brokers of one cluster keep their records in), kafka (Apache Kafka) or exec (any program). Only a node that brokers or engine above make may be without it.
	Kind string `json:"kind,omitempty" jsonschema:"enum=broker,enum=engine,enum=kafka,enum=exec"`
	// Addresses of the node, IPv4 and IPv6. Without them it gets one of each from 198.18.0.0/15 and fd00:6c61:62::/64.
	Addresses Strings `json:"addresses,omitempty"`
	// For kafka: the released version that runs, such as 4.3.0. Without it: 4.4.0. lab up gets it with Maven where it is missing.
	Version string `json:"version,omitempty"`
	// For kafka, instead of version: a folder with a release of Kafka, relative to the lab file.
	Home string `json:"home,omitempty"`
	// For kafka: the level of metadata.version that its storage is formatted at, such as 4.3 or 4.4-IV1. Without it: the version's latest.
	Release string `json:"release,omitempty"`
	// For broker, engine and kafka: the cluster that it belongs to. Nodes of kind kafka with the same name are one cluster, and each is a broker and a controller of it. Brokers with the same name are one cluster, too: each is the face of that node of the engine, or of Apache Kafka, in the cluster that has its node.id. Without it: a cluster of its own.
	Cluster string `json:"cluster,omitempty"`
	// For broker and kafka: keys of server.properties. They win over config-file and over what the lab would set.
	Config map[string]Text `json:"config,omitempty"`
	// For broker and kafka: a server.properties to start from, relative to the lab file.
	ConfigFile string `json:"config-file,omitempty"`
	// For broker and kafka: its listeners as Kafka writes them, such as SASL_SSL://:9095. Without them: PLAINTEXT on 9092, SSL on 9093, SASL_PLAINTEXT on 9094 and SASL_SSL on 9095, each for IPv4 and IPv6.
	Listeners Strings `json:"listeners,omitempty"`
	// Ports of 127.0.0.1 on this machine that lead to the node. For broker and kafka each is a listener of its own.
	Expose []FileExpose `json:"expose,omitempty"`
	// For exec: the program and its arguments; one string is run by sh -c.
	Cmd Strings `json:"cmd,omitempty"`
	// For exec and kafka: further environment variables. Kafka reads what its own scripts do, such as KAFKA_HEAP_OPTS: -Xmx1g.
	Env map[string]Text `json:"env,omitempty"`
	// For exec: the TCP ports it will listen on; the node is ready once it does.
	Ports []Port `json:"ports,omitempty"`
}

// FileSubnet is one client network, or count of them.
type FileSubnet struct {
	// The prefixes of one subnet.
	CIDR Strings `json:"cidr,omitempty"`
	// How many subnets to make, named NAME-1, NAME-2 and so on; needs from.
	Count int `json:"count,omitempty" jsonschema:"minimum=1"`
	// The pool (or an IPv4 and an IPv6 pool) to cut the subnets from, in order; blocks that anything else in the file uses are left out.
	From Strings `json:"from,omitempty"`
	// The prefix length of each subnet, one for each pool. Without it: 24 for IPv4, 64 for IPv6.
	Prefix Ints `json:"prefix,omitempty"`
}

// FileUser is one who logs in.
type FileUser struct {
	// The password for SASL. Without it: NAME-secret.
	Password string `json:"password,omitempty"`
	// The subject of the certificate, as Kafka writes it: CN=alice,OU=billing,O=Example. Without it: CN=NAME.
	DN string `json:"dn,omitempty"`
}

// FileTopic is one topic.
type FileTopic struct {
	// How many partitions it has. Without it: 1.
	Partitions int `json:"partitions,omitempty" jsonschema:"minimum=1"`
}

// FileACL is one rule of the authorizer.
type FileACL struct {
	// Whom it is about, such as User:alice; User:* is everybody.
	Principal string `json:"principal"`
	// From where: * for anywhere, an address as Java prints it, or a CIDR range. Without it: *.
	Host string `json:"host,omitempty"`
	// What it is about, by Kafka's name, such as READ.
	Operation string `json:"operation"`
	// ALLOW or DENY. Without it: ALLOW.
	Permission string `json:"permission,omitempty" jsonschema:"enum=ALLOW,enum=DENY"`
	// The resource, TYPE:NAME: Topic:orders, Group:billing, TransactionalId:tx-1, Cluster. The name * is all of the type.
	Resource string `json:"resource"`
	// LITERAL, or PREFIXED for all names that begin with this one. Without it: LITERAL.
	Pattern string `json:"pattern,omitempty" jsonschema:"enum=LITERAL,enum=PREFIXED"`
}

// FileExpectation is what one principal may do to one resource from one address.
type FileExpectation struct {
	// Who asks, as the broker should take them for, such as User:alice.
	Principal string `json:"principal"`
	// The address from which they ask, one of a subnet's.
	From string `json:"from"`
	// What they ask for, TYPE:NAME: Topic:orders, Group:billing, TransactionalId:tx-1, Cluster.
	Resource string `json:"resource"`
	// The listener at which they ask. Without it: the first at which they can log in.
	Listener string `json:"listener,omitempty"`
	// Each operation by Kafka's name and what is expected of it: allow or deny. The number of the rule that decides may follow: READ: allow 2.
	Operations map[string]Text `json:"operations"`
}

// FileExpose is a port of this machine that leads to a node: a number, or a number and a protocol.
type FileExpose struct {
	// The port, on 127.0.0.1 and on the node.
	Port Port `json:"port"`
	// For broker and kafka: the security protocol of the listener behind it. Without it: PLAINTEXT.
	Protocol string `json:"protocol,omitempty" jsonschema:"enum=PLAINTEXT,enum=SSL,enum=SASL_PLAINTEXT,enum=SASL_SSL"`
}

// Strings is one string or a list of them.
type Strings []string

// Ints is one number or a list of them.
type Ints []int

// Text is a scalar of any type, kept as it was written; a list is joined with commas, as Kafka's lists are.
type Text string

// Port is a TCP port.
type Port uint16

// parsePort reads a port other than 0.
func parsePort(s string) (Port, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not a port: want a number from 1 to 65535", s)
	}
	return Port(n), nil
}
