package command

import (
	"testing"

	"github.com/brokerlab/brokerlab/netlab/topology"
)

func TestConnectionsAreGroupedByTheSubnetsOfALab(t *testing.T) {
	t.Parallel()
	lab, err := topology.Load("../../../../examples/quickstart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for servers, want := range map[string]bool{
		"127.0.0.1:29192": true, "localhost:29195": true, "[::1]:29192": true,
		"127.0.0.1:9092": false, "broker1:29192": false, "10.0.0.1:29192": false,
	} {
		if got := exposes(lab, []string{servers}); got != want {
			t.Errorf("exposes(quickstart, %s) = %v, want %v", servers, got, want)
		}
	}
	for cgroups, want := range map[string]bool{
		"8:pids:/\n0::/brokerlab/quickstart/.exec\n": true, "0::/x/brokerlab/quickstart/broker1/1\n": true,
		"0::/brokerlab/quickstart2/.exec\n": false, "0::/\n": false, "": false,
	} {
		if got := runsIn(cgroups, "quickstart"); got != want {
			t.Errorf("runsIn(%q) = %v, want %v", cgroups, got, want)
		}
	}
	subnet := lab.Subnets[0]
	known := []labSubnet{{subnet.Name, subnet.Prefixes}}
	inside := subnet.Prefixes[0].Addr().Next().String()
	for address, want := range map[string]string{
		inside: subnet.Prefixes[0].String() + " " + subnet.Name, "192.0.2.77": "192.0.2.0/24", "2001:db8:9:9::1": "2001:db8:9:9::/64", "?": "?",
	} {
		if got := subnetIn(address, known, [2]int{24, 64}); got != want {
			t.Errorf("subnetIn(%s) = %q, want %q", address, got, want)
		}
	}
}
