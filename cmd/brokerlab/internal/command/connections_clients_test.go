package command

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// mix is a broker of three with its connections of 900 producers and 40 consumers, all in group g. Producer 7 has two more than its
// fellows, and consumers have their coordinator at broker 1, which describes the group.
func mix(node int32) *admintest.Broker {
	var rows []protocol.DescribeConnectionsResponseConnection
	add := func(id, address string, times int) {
		for range times {
			rows = append(rows, protocol.DescribeConnectionsResponseConnection{
				ConnectionID: fmt.Sprintf("%d-%d", node, len(rows)), Principal: "User:app", ClientAddress: address,
				ListenerName: "SSL", SecurityProtocol: "SSL", SoftwareName: "confluent-kafka-dotnet", ClientID: &id, State: protocol.StateOpen,
			})
		}
	}
	group := kmsg.DescribeGroupsResponseGroup{Group: "g", State: "Stable", ProtocolType: "consumer"}
	extra := map[int32]int{1: 1}[node] // bootstrap, and of consumers the coordinator
	for i := range 900 {
		leak := 0
		if i == 7 {
			leak = 1
		}
		add(fmt.Sprintf("producer-%d", i), "10.0.0.1", 1+extra+leak)
	}
	for i := range 40 {
		id := fmt.Sprintf("consumer-%d", i)
		add(id, "10.0.0.2", 1+2*extra)
		group.Members = append(group.Members, kmsg.DescribeGroupsResponseGroupMember{MemberID: id, ClientID: id, ClientHost: "/10.0.0.2"})
	}
	return &admintest.Broker{
		NodeID: node, Keys: []int16{protocol.DefaultDescribeConnectionsKey, 10, 15, 16},
		Handle: func(req kmsg.Request) kmsg.Response {
			switch resp := req.ResponseKind().(type) {
			case *protocol.DescribeConnectionsResponse:
				resp.Connections = rows
				return resp
			case *kmsg.ListGroupsResponse:
				if node == 1 {
					resp.Groups = []kmsg.ListGroupsResponseGroup{{Group: "g", ProtocolType: "consumer"}}
				}
				return resp
			case *kmsg.DescribeGroupsResponse:
				resp.Groups = []kmsg.DescribeGroupsResponseGroup{group}
				return resp
			case *kmsg.FindCoordinatorResponse:
				resp.NodeID, resp.Host, resp.Port = 1, "", 0
				for _, key := range req.(*kmsg.FindCoordinatorRequest).CoordinatorKeys { //nolint:forcetypeassert // its answer's
					resp.Coordinators = append(resp.Coordinators, kmsg.FindCoordinatorResponseCoordinator{Key: key, NodeID: 1})
				}
				return resp
			}
			return nil
		},
	}
}

// How many connections should 900 producers and 40 consumers make to three brokers (confluent-kafka-dotnet, issue 1645)?
func TestEachClientIsHeldAgainstWhatOneOfItsKindMakes(t *testing.T) {
	t.Parallel()
	c := admintest.Start(t, mix(1), mix(2), mix(3))
	got := run(t, "brokerlab", "connections", "clients", "--bootstrap-server", c.Addr(0), "--limit", "3", "--format", "json")
	var doc jsonPerClient
	if err := json.Unmarshal([]byte(got.out), &doc); err != nil {
		t.Fatalf("%v in %+v", err, got)
	}
	// Each producer makes 3 and 1 to find the cluster, each consumer one more; the leak is one at each broker.
	want := jsonClientSum{Clients: 940, Actual: 900*4 + 40*5 + 3, Bound: 900*4 + 40*5, Excess: 3}
	if got.code != 0 || doc.Sum != want || doc.Brokers != 3 || len(doc.Clients) != 3 {
		t.Errorf("clients = exit status %d, %+v on %d brokers, %q, want %+v", got.code, doc.Sum, doc.Brokers, got.errout, want)
	}
	if first := doc.Clients[0]; *first.ClientID != "producer-7" || first.Actual != 7 || first.Bound != 4 || first.Excess != 3 || first.ByNode[1] != 3 || first.ByNode[2] != 2 {
		t.Errorf("the first = %+v, want the one with an excess of 3", first)
	}
	if second := doc.Clients[1]; *second.Role != roleConsumer || second.Actual != 5 || second.Bound != 5 {
		t.Errorf("the second = %+v, want a consumer", second)
	}
	got = run(t, "brokerlab", "connections", "clients", "--bootstrap-server", c.Addr(0), "--limit", "1")
	for _, want := range []string{"producer-7", "1:3 2:2 3:2", "940 clients on 3 brokers: 3803 actual, 3800 expected at most, 3 in excess\n"} {
		if !strings.Contains(got.out, want) {
			t.Errorf("clients printed\n%s\nwant %q in it", got.out, want)
		}
	}
	for line := range strings.Lines(got.out) {
		if len([]rune(line)) > tableWidth+1 {
			t.Errorf("a line of %d columns: %s", len([]rune(line)), line)
		}
	}
}

func TestWhereGroupsCannotBeAskedEveryClientMayHaveWhatAConsumerMay(t *testing.T) {
	t.Parallel()
	id := "x"
	l := &listing{wide: []protocol.DescribeConnectionsResponseConnection{
		{ConnectionID: "a", ClientAddress: "10.0.0.1", ClientID: &id, SoftwareName: "kgo"},
		{ConnectionID: "b", ClientAddress: "10.0.0.1", ClientID: &id, SoftwareName: "my-own"},
	}}
	c := admintest.Start(t, l.broker(1))
	got := run(t, "brokerlab", "connections", "clients", "--bootstrap-server", c.Addr(0), "--format", "json")
	var doc jsonPerClient
	if err := json.Unmarshal([]byte(got.out), &doc); err != nil {
		t.Fatalf("%v in %+v", err, got)
	}
	if got.code != 0 || !strings.Contains(got.errout, "who consumes is not known") || len(doc.Clients) != 2 {
		t.Fatalf("clients = %+v, want two, and that roles are not known", got)
	}
	for _, r := range doc.Clients {
		bound := map[string]int{"kgo": 4, "my-own": 3}[*r.SoftwareName]
		if r.Role != nil || r.Bound != bound || r.Assumed != (*r.SoftwareName == "my-own") {
			t.Errorf("client = %+v, want a bound of %d", r, bound)
		}
	}
}

// On three real brokers behind one answer, with a client of each kind.
func TestARealClientStaysWithinItsBound(t *testing.T) {
	t.Parallel()
	_, one := lone(t, 1)
	_, two := lone(t, 2)
	c := admintest.Start(t, one, two)
	got := run(t, "brokerlab", "connections", "clients", "--bootstrap-server", c.Addr(0), "--format", "json")
	var doc jsonPerClient
	if err := json.Unmarshal([]byte(got.out), &doc); err != nil {
		t.Fatalf("%v in %+v", err, got)
	}
	if got.code != 0 || doc.Brokers != 2 || doc.Sum.Excess != 0 || doc.Sum.Actual == 0 {
		t.Errorf("clients = %+v, want the faces' own connections, and no excess", got)
	}
}
