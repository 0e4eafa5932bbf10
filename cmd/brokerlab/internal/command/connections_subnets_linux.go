package command

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

// labSubnets are the client subnets of the lab that servers are of: the lab in which this process runs, or the one
// that forwards a port of this machine to its broker. Nil: servers are of no lab, or of one that this user may not see.
func labSubnets(servers string) []labSubnet {
	names, err := netlab.List(netlab.Options{})
	if err != nil {
		return nil
	}
	addrs, err := parseBootstrap(servers)
	if err != nil {
		return nil
	}
	cgroups, _ := os.ReadFile("/proc/self/cgroup") // without it this process is in no lab
	for _, name := range names {
		lab, err := netlab.Open(name, netlab.Options{})
		if err != nil {
			continue
		}
		plan := lab.Topology()
		_ = lab.Close()
		if runsIn(string(cgroups), name) || exposes(plan, addrs) {
			subnets := make([]labSubnet, len(plan.Subnets))
			for i, s := range plan.Subnets {
				subnets[i] = labSubnet{s.Name, s.Prefixes}
			}
			return subnets
		}
	}
	return nil
}

// runsIn tells whether a process whose /proc/self/cgroup says cgroups is one of the lab's.
func runsIn(cgroups, lab string) bool {
	for line := range strings.Lines(cgroups) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.Contains(path, "/brokerlab/"+lab+"/")
		}
	}
	return false
}

// exposes tells whether one of the servers is a port of this machine that the lab forwards to a broker.
func exposes(lab *topology.Lab, servers []string) bool {
	for _, server := range servers {
		host, port, err := net.SplitHostPort(server)
		if err != nil {
			continue
		}
		if a, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !a.IsLoopback()) {
			continue
		}
		for i := range lab.Nodes {
			for _, e := range lab.Nodes[i].Expose {
				if strconv.Itoa(int(e.Port)) == port {
					return true
				}
			}
		}
	}
	return false
}
