package command

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

const pushTime = 1_790_000_000_000

func pushedConfiguration(words string) protocol.DescribeClientConfigsResponseConfiguration {
	k := protocol.DescribeClientConfigsResponseConfiguration{Bytes: int32(len(words)), FirstPushed: pushTime, LastPushed: pushTime, Pushes: 1, Open: true}
	for word := range strings.FieldsSeq(words) {
		key, value, _ := strings.Cut(word, "=")
		e := protocol.DescribeClientConfigsResponseEntry{Key: key, Value: value, Type: protocol.ConfigTypeString}
		e.Key, e.Default = strings.TrimSuffix(key, "*"), strings.HasSuffix(key, "*")
		k.Entries = append(k.Entries, e)
	}
	return k
}

func pushingClient(id int64, clientID string, configurations ...protocol.DescribeClientConfigsResponseConfiguration) protocol.DescribeClientConfigsResponseClient {
	return protocol.DescribeClientConfigsResponseClient{
		ID: id, Principal: "User:orders", ClientAddress: "10.1.0.4", ClientID: clientID, ListenerName: "SSL", SecurityProtocol: "SSL",
		SoftwareName: "franz-go", SoftwareVersion: "1.22", Connections: 2, Configurations: configurations,
	}
}

// keeper is a broker that keeps three clients, one of them ambiguous; it hands them out page by page.
func keeper(t *testing.T, asked *[]*protocol.DescribeClientConfigsRequest) *admintest.Cluster {
	t.Helper()
	clients := []protocol.DescribeClientConfigsResponseClient{
		pushingClient(3, "orders-1", pushedConfiguration("acks=all linger.ms=5 client.id=orders-1 retries*=2147483647")),
		pushingClient(5, "orders-2", pushedConfiguration("acks=all linger.ms=0 client.id=orders-2")),
		pushingClient(8, "", pushedConfiguration("acks=1 linger.ms=5 client.id="), pushedConfiguration("acks=all linger.ms=5 client.id=")),
	}
	return admintest.Start(t, answering(1, protocol.DefaultDescribeClientConfigsKey, func(req kmsg.Request) kmsg.Response {
		r := req.(*protocol.DescribeClientConfigsRequest)
		*asked = append(*asked, r)
		resp := protocol.NewPtrDescribeClientConfigsResponse()
		resp.NodeID, resp.Time = 1, pushTime+90_000
		next := slices.IndexFunc(clients, func(c protocol.DescribeClientConfigsResponseClient) bool { return c.ID > r.AfterID })
		if next >= 0 {
			resp.Clients = clients[next : next+1]
		}
		if next+1 < len(clients) {
			resp.NextID = clients[next].ID
		}
		return resp
	}))
}

func TestClientsAreListedPageByPage(t *testing.T) {
	t.Parallel()
	var asked []*protocol.DescribeClientConfigsRequest
	c := keeper(t, &asked)
	got := run(t, "brokerlab", "clients", "list", "--bootstrap-server", c.Addr(0), "--principal", "User:orders", "--client-address", "10.1.0.0/16")
	want := `NODE  PRINCIPAL    CLIENT-ID  ADDRESS   LISTENER  SOFTWARE       CONNS  CONFIGS  BYTES  PUSHED
1     User:orders  orders-1   10.1.0.4  SSL       franz-go/1.22  2      1        59 B   1m30s ago
1     User:orders  orders-2   10.1.0.4  SSL       franz-go/1.22  2      1        39 B   1m30s ago
1     User:orders  -          10.1.0.4  SSL       franz-go/1.22  2      2        29 B   1m30s ago
`
	if got.code != 0 || got.out != want {
		t.Errorf("clients list = %d\n%s%s, want\n%s", got.code, got.out, got.errout, want)
	}
	if len(asked) != 3 || *asked[0].PrincipalFilter != "User:orders" || *asked[0].AddressFilter != "10.1.0.0/16" || asked[0].WithEntries || asked[2].AfterID != 5 {
		t.Errorf("the broker was asked %d times, first for %+v, last for %+v", len(asked), asked[0], asked[len(asked)-1])
	}
}

func TestClientsShowWhatWasSet(t *testing.T) {
	t.Parallel()
	var asked []*protocol.DescribeClientConfigsRequest
	c := keeper(t, &asked)
	got := run(t, "brokerlab", "clients", "show", "--bootstrap-server", c.Addr(0))
	for _, want := range []string{
		"    acks       all       string  set\n", "1 key as by default (--all shows them)\n", "AMBIGUOUS: 2 configurations came from clients that look the same\n",
	} {
		if !strings.Contains(got.out, want) {
			t.Errorf("clients show =\n%s, want it to contain %q", got.out, want)
		}
	}
	if got.code != 0 || strings.Contains(got.out, "retries") {
		t.Errorf("clients show = %d\n%s, want no key that has its default", got.code, got.out)
	}
	if all := run(t, "brokerlab", "clients", "show", "--all", "--bootstrap-server", c.Addr(0)); !strings.Contains(all.out, "retries") {
		t.Errorf("clients show --all =\n%s, want retries", all.out)
	}
	var doc jsonClients
	if js := run(t, "brokerlab", "clients", "show", "--format", "json", "--bootstrap-server", c.Addr(0)); json.Unmarshal([]byte(js.out), &doc) != nil {
		t.Fatalf("clients show --format json = %s", js.out)
	}
	if len(doc.Clients) != 3 || !doc.Clients[2].Ambiguous || len(doc.Clients[0].Configurations[0].Entries) != 4 || *doc.Clients[0].Connections != 2 {
		t.Errorf("clients show --format json = %+v", doc)
	}
}

func TestClientsDifferByKey(t *testing.T) {
	t.Parallel()
	var asked []*protocol.DescribeClientConfigsRequest
	c := keeper(t, &asked)
	got := run(t, "brokerlab", "clients", "diff", "--bootstrap-server", c.Addr(0))
	want := `User:orders  franz-go: 4 instances, 3 keys differ
  KEY        VALUE         INSTANCES  WHO
  acks       all           3          orders-1 10.1.0.4, orders-2 10.1.0.4 and 1 more
             1             1          - 10.1.0.4
  linger.ms  5             3          orders-1 10.1.0.4, - 10.1.0.4 and 1 more
             0             1          orders-2 10.1.0.4
  retries    (not pushed)  3          orders-2 10.1.0.4, - 10.1.0.4 and 1 more
             2147483647    1          orders-1 10.1.0.4
`
	if got.code != 1 || got.out != want {
		t.Errorf("clients diff = %d\n%s%s, want 1 and\n%s", got.code, got.out, got.errout, want)
	}
	if same := run(t, "brokerlab", "clients", "diff", "--by", "client-id", "--client-id", "orders-1", "--bootstrap-server", c.Addr(0)); strings.Contains(same.out, "orders-1:") {
		t.Errorf("clients diff --by client-id =\n%s, want nothing of orders-1: it has one configuration", same.out)
	}
	if bad := run(t, "brokerlab", "clients", "diff", "--by", "moon", "--bootstrap-server", c.Addr(0)); bad.code == 0 || !strings.Contains(bad.errout, "principal, client-id, group or software") {
		t.Errorf("clients diff --by moon = %d, %s", bad.code, bad.errout)
	}
}

func TestClientsAreLinted(t *testing.T) {
	t.Parallel()
	var asked []*protocol.DescribeClientConfigsRequest
	c := keeper(t, &asked)
	got := run(t, "brokerlab", "clients", "lint", "--bootstrap-server", c.Addr(0))
	if got.code != 1 || !strings.Contains(got.out, "  acks=1\n") || !strings.Contains(got.out, "(Kafka's default: all)") || !strings.HasSuffix(got.out, "Findings: 3 in 3 clients.\n") {
		t.Errorf("clients lint = %d\n%s", got.code, got.out)
	}
}

func TestHostileConfigurationsAreShownSafely(t *testing.T) {
	t.Parallel()
	hostile := pushingClient(-1, strings.Repeat("\x1b[2Jé", 300), protocol.DescribeClientConfigsResponseConfiguration{
		Bytes: -1, LastPushed: 1 << 62, Pushes: -5, Entries: []protocol.DescribeClientConfigsResponseEntry{
			{Key: "\x1b]0;x\a", Value: strings.Repeat("\u202e", 500), Type: -128}, {Key: "acks", Value: "1\n", Type: 99},
		},
	})
	hostile.Connections, hostile.More = -7, -1
	c := admintest.Start(t, answering(1, protocol.DefaultDescribeClientConfigsKey, func(kmsg.Request) kmsg.Response {
		return &protocol.DescribeClientConfigsResponse{NodeID: 1, NextID: -3, Clients: []protocol.DescribeClientConfigsResponseClient{hostile, {}}}
	}))
	for _, words := range [][]string{{"list"}, {"show"}, {"show", "--all"}, {"diff"}, {"lint"}, {"list", "--format", "json"}, {"show", "--format", "json"}, {"diff", "--format", "json"}} {
		got := run(t, append([]string{"brokerlab", "clients", "--bootstrap-server", c.Addr(0)}, words...)...)
		if strings.ContainsAny(got.out, "\x1b\a\u202e") || got.code > 1 {
			t.Errorf("clients %v = %d\n%q", words, got.code, got.out)
		}
		for line := range strings.Lines(got.out) {
			if len(words) == 1 && utf8.RuneCountInString(line) > 101 {
				t.Errorf("clients %v has a line of %d columns: %s", words, utf8.RuneCountInString(line), line)
			}
		}
	}
}

func TestAWideListLinksConnectionsToConfigurations(t *testing.T) {
	t.Parallel()
	clientID := "orders-1"
	open := func(id string) protocol.DescribeConnectionsResponseConnection {
		return protocol.DescribeConnectionsResponseConnection{
			ConnectionID: id, Principal: "User:orders", ClientAddress: "10.1.0.4", ClientID: &clientID, ListenerName: "SSL",
			SoftwareName: "franz-go", SoftwareVersion: "1.22",
		}
	}
	first, second := pushedConfiguration("acks=all"), pushedConfiguration("acks=1")
	first.ConnectionID = "a"
	for _, c := range []struct {
		kept []protocol.DescribeClientConfigsResponseConfiguration
		want []string // of the connections a and b
	}{
		{nil, []string{"", ""}},
		{
			[]protocol.DescribeClientConfigsResponseConfiguration{first},
			[]string{"8 B pushed 1m30s ago over this connection", "8 B pushed 1m30s ago over another connection of this client"},
		},
		{
			[]protocol.DescribeClientConfigsResponseConfiguration{first, second},
			[]string{"8 B pushed 1m30s ago over this connection", "AMBIGUOUS: one of 2 configurations, see brokerlab clients show"},
		},
	} {
		broker := answering(1, protocol.DefaultDescribeConnectionsKey, func(req kmsg.Request) kmsg.Response {
			if _, configs := req.(*protocol.DescribeClientConfigsRequest); !configs {
				resp := protocol.NewPtrDescribeConnectionsResponse()
				resp.NodeID, resp.Connections = 1, []protocol.DescribeConnectionsResponseConnection{open("a"), open("b")}
				return resp
			}
			resp := protocol.NewPtrDescribeClientConfigsResponse()
			resp.NodeID, resp.Time = 1, pushTime+90_000
			if c.kept != nil {
				resp.Clients = []protocol.DescribeClientConfigsResponseClient{pushingClient(3, clientID, c.kept...)}
			}
			return resp
		})
		broker.Keys = append(broker.Keys, protocol.DefaultDescribeClientConfigsKey)
		got := run(t, "brokerlab", "connections", "list", "--wide", "--bootstrap-server", admintest.Start(t, broker).Addr(0))
		var links []string
		for line := range strings.Lines(got.out) {
			if text, ok := strings.CutPrefix(line, "  config  "); ok {
				links = append(links, strings.TrimSpace(text))
			}
		}
		if want := strings.Join(c.want, "\n"); strings.Join(links, "\n") != strings.TrimSpace(want) {
			t.Errorf("connections list --wide with %d configurations =\n%s%s, want the links\n%s", len(c.kept), got.out, got.errout, want)
		}
	}
}
