package netlab

import (
	"net/netip"
	"time"

	"github.com/brokerlab/brokerlab/netlab/topology"
)

// Status describes a lab, as lab inspect shows it.
type Status struct {
	Name     string         `json:"name"`
	Folder   string         `json:"folder"`
	State    string         `json:"state"`           // building, up, failed, or ownerless after its owner was killed
	Error    string         `json:"error,omitempty"` // why it failed
	OwnerPID int            `json:"ownerPid,omitempty"`
	Since    time.Time      `json:"since"`
	Kernel   string         `json:"kernel"` // how the kernel counts for the brokers, or why it does not
	Router   []netip.Addr   `json:"router"` // what a node sees as the client of an exposed port
	Nodes    []NodeStatus   `json:"nodes"`
	Subnets  []SubnetStatus `json:"subnets"`
	Cuts     []Cut          `json:"cuts,omitempty"`    // what [Lab.Cut] has cut, and nobody healed
	Skipped  []Skipped      `json:"skipped,omitempty"` // what this machine cannot have
}

// Cut is two nodes or subnets between which no packet passes.
type Cut struct {
	A string `json:"a"`
	B string `json:"b"`
}

// States of a lab.
const (
	LabBuilding  = "building"
	LabUp        = "up"
	LabFailed    = "failed"
	LabOwnerless = "ownerless"
)

// NodeStatus describes a node.
type NodeStatus struct {
	Name        string           `json:"name"`
	Kind        string           `json:"kind"`
	Version     string           `json:"version,omitempty"` // of Apache Kafka, where the node runs it
	Cluster     string           `json:"cluster,omitempty"` // of a broker, ours or Apache's, or an engine: see [topology.Node.ClusterName]
	State       string           `json:"state"`
	Reason      string           `json:"reason,omitempty"` // how it ended
	PID         int              `json:"pid,omitempty"`
	Since       time.Time        `json:"since,omitzero"`
	Addresses   []netip.Addr     `json:"addresses"`
	Listeners   []ListenerStatus `json:"listeners,omitempty"`
	Ports       []uint16         `json:"ports"`
	Exposed     []uint16         `json:"exposed,omitempty"`
	Netns       string           `json:"netns"` // path
	NetnsCookie uint64           `json:"netnsCookie,omitempty"`
	Cgroup      string           `json:"cgroup"`
	Log         string           `json:"log"` // path
}

// ListenerStatus describes a broker's listener.
type ListenerStatus struct {
	Name       string   `json:"name"`
	Protocol   string   `json:"protocol"`
	Port       uint16   `json:"port"`
	Advertised string   `json:"advertised"`
	Properties []string `json:"properties"`       // client.properties, one a user
	PKCS12     []string `json:"pkcs12,omitempty"` // the same with PKCS12 stores, where TLS is spoken
}

// SubnetStatus describes a subnet.
type SubnetStatus struct {
	Name        string         `json:"name"`
	Prefixes    []netip.Prefix `json:"prefixes"`
	Netns       string         `json:"netns"` // path
	NetnsCookie uint64         `json:"netnsCookie,omitempty"`
}

// describe is what the state alone tells.
func (h home) describe(s *state) *Status {
	st := &Status{
		Name: h.name(), Folder: string(h), State: LabOwnerless, Since: s.Since, Skipped: s.Skipped,
		Router: []netip.Addr{routerV4(), routerV6()}, Nodes: []NodeStatus{}, Subnets: []SubnetStatus{},
	}
	for i := range s.Lab.Nodes {
		n := &s.Lab.Nodes[i]
		ns := NodeStatus{
			Name: n.Name, Kind: n.Kind, Version: n.Version, Cluster: n.ClusterName(), State: StateNew, Addresses: n.Addresses, Ports: n.Ports,
			Netns: h.netns(n.Name), Cgroup: string(s.Cgroup.node(n.Name)), Log: h.path("nodes", n.Name, "log"),
		}
		for _, e := range n.Expose {
			ns.Exposed = append(ns.Exposed, e.Port)
		}
		if n.Serves() {
			for _, l := range allListeners(n) {
				ns.Listeners = append(ns.Listeners, h.listener(n, l, s.Lab.Users))
			}
		}
		st.Nodes = append(st.Nodes, ns)
	}
	for i := range s.Lab.Subnets {
		n := &s.Lab.Subnets[i]
		st.Subnets = append(st.Subnets, SubnetStatus{Name: n.Name, Prefixes: n.Prefixes, Netns: h.netns(n.Name)})
	}
	return st
}

// listener describes a listener of a broker.
func (h home) listener(n *topology.Node, l topology.Listener, users []topology.User) ListenerStatus {
	ls := ListenerStatus{Name: l.Name, Protocol: l.Protocol, Port: l.Port, Advertised: advertised(n, l)}
	if l.Protocol == "PLAINTEXT" {
		ls.Properties = []string{h.properties(l.Name, anonymous)}
		return ls
	}
	for _, u := range users {
		ls.Properties = append(ls.Properties, h.properties(l.Name, u.Name))
		if encrypted(l.Protocol) {
			ls.PKCS12 = append(ls.PKCS12, h.pkcs12Properties(l.Name, u.Name))
		}
	}
	return ls
}
