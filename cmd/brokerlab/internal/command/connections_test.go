package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// ran is what a command line did.
type ran struct {
	code        int
	out, errout string
}

func run(t *testing.T, args ...string) ran {
	t.Helper()
	var out, errout bytes.Buffer
	code := Run(t.Context(), args, Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errout})
	return ran{code, out.String(), errout.String()}
}

// listing is a broker that answers both lists with these connections, and remembers the latest request.
type listing struct {
	rows []protocol.ListClientConnectionsResponseConnection
	wide []protocol.DescribeConnectionsResponseConnection
	gone []protocol.DescribeClosedConnectionsResponseConnection
	code int16
	why  string
	last kmsg.Request
}

// gonePast is when such a broker answers about closed connections.
const gonePast = 1_790_000_100_000

func (l *listing) broker(node int32) *admintest.Broker {
	return &admintest.Broker{
		NodeID: node,
		Keys:   []int16{protocol.DefaultListClientConnectionsKey, protocol.DefaultDescribeConnectionsKey, protocol.DefaultDescribeClosedKey},
		Handle: func(req kmsg.Request) kmsg.Response {
			l.last = req
			switch resp := req.ResponseKind().(type) {
			case *protocol.ListClientConnectionsResponse:
				resp.ErrorCode, resp.Connections = l.code, l.rows
				return resp
			case *protocol.DescribeConnectionsResponse:
				resp.ErrorCode, resp.Connections, resp.KernelSource, resp.KernelWhy = l.code, l.wide, "full", l.why
				return resp
			case *protocol.DescribeClosedConnectionsResponse:
				resp.ErrorCode, resp.Connections, resp.NodeID, resp.Time = l.code, l.gone, node, gonePast
				resp.Sequence, resp.Capacity = int64(len(l.gone)), 4
				return resp
			}
			return nil
		},
	}
}

func row(id, principal, address string, port int32, software string, since int64) protocol.ListClientConnectionsResponseConnection {
	kind, _, _ := strings.Cut(principal, ":")
	name, version, _ := strings.Cut(software, "/")
	return protocol.ListClientConnectionsResponseConnection{
		ConnectionID: id, Principal: principal, PrincipalType: kind, ClientAddress: address, ClientPort: port,
		ListenerName: "SASL_SSL", SecurityProtocol: "SASL_SSL", SoftwareName: name, SoftwareVersion: version, ConnectedSince: since,
	}
}

func TestConnectionsListIsKIP1329sTable(t *testing.T) {
	one := &listing{rows: []protocol.ListClientConnectionsResponseConnection{
		row("10.0.0.1:9092-10.0.0.5:54321-2-0", "User:alice", "10.0.0.5", 54321, "apache-kafka-java/4.4.0", 1_790_000_000_999),
		row("0:0:0:0:0:0:0:1:9092-0:0:0:0:0:0:0:1:45272-2-1", "", "0:0:0:0:0:0:0:1", 45272, "", 0),
	}}
	two := &listing{rows: []protocol.ListClientConnectionsResponseConnection{
		row("10.0.0.2:9092-10.0.0.5:1-0-0", "User:CN=bob, O=x", "10.0.0.5", 1, "librdkafka/2.16.0", 1_790_000_000_000),
	}}
	c := admintest.Start(t, two.broker(2), one.broker(1))
	//nolint:dupword // columns
	want := strings.Join([]string{
		"NODE  CONNECTION-ID                                   PRINCIPAL         CLIENT-ADDRESS   PORT   LISTENER  PROTOCOL  SOFTWARE                 CONNECTED-SINCE",
		"1     0:0:0:0:0:0:0:1:9092-0:0:0:0:0:0:0:1:45272-2-1  -                 0:0:0:0:0:0:0:1  45272  SASL_SSL  SASL_SSL  -                        -",
		"1     10.0.0.1:9092-10.0.0.5:54321-2-0                User:alice        10.0.0.5         54321  SASL_SSL  SASL_SSL  apache-kafka-java/4.4.0  2026-09-21T14:13:20Z",
		"2     10.0.0.2:9092-10.0.0.5:1-0-0                    User:CN=bob, O=x  10.0.0.5         1      SASL_SSL  SASL_SSL  librdkafka/2.16.0        2026-09-21T14:13:20Z",
		"",
	}, "\n")
	for _, args := range [][]string{
		{"brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0)},
		{"/opt/kafka/bin/kafka-client-connections.sh", "--bootstrap-server", "127.0.0.1:1, " + c.Addr(1), "--list"},
	} {
		table := want
		if args[0] != "brokerlab" { // the KIP's table does not name brokers
			table = regexp.MustCompile(`(?m)^.{6}`).ReplaceAllString(want, "")
		}
		if got := run(t, args...); got.code != 0 || got.out != table || got.errout != "" {
			t.Errorf("%v = %d, %q and\n%s\nwant\n%s", args, got.code, got.errout, got.out, table)
		}
	}
}

func TestConnectionsListOfNothingIsItsHeader(t *testing.T) {
	c := admintest.Start(t, new(listing).broker(1))
	got := run(t, "brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0))
	want := "CONNECTION-ID  PRINCIPAL  CLIENT-ADDRESS  PORT  LISTENER  PROTOCOL  SOFTWARE  CONNECTED-SINCE\n"
	if got.code != 0 || got.out != want || got.errout != "" {
		t.Errorf("list = %+v, want the header", got)
	}
	got = run(t, "brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0), "--format", "json")
	if squashed := strings.Join(strings.Fields(got.out), ""); got.code != 0 || squashed != `{"connections":[],"errors":[]}` {
		t.Errorf("list as JSON = %+v, want empty lists", got)
	}
}

func TestConnectionsListPrintsWhatCameBackAndFails(t *testing.T) {
	ok := &listing{rows: []protocol.ListClientConnectionsResponseConnection{row("a", "User:alice", "10.0.0.5", 1, "", 1)}}
	denied := &listing{code: kerr.ClusterAuthorizationFailed.Code}
	c := admintest.Start(t, ok.broker(1), denied.broker(2), &admintest.Broker{NodeID: 3, Down: true}, &admintest.Broker{NodeID: 4})
	for _, format := range []string{"table", "json"} {
		got := run(t, "brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0), "--format", format)
		if got.code != 1 || !strings.Contains(got.out, "User:alice") {
			t.Errorf("list as %s = %+v, want alice and exit status 1", format, got)
		}
		lines := strings.Split(strings.TrimSpace(got.errout), "\n")
		if len(lines) != 3 || !strings.Contains(lines[0], "broker 2 (") || !strings.Contains(lines[0], "CLUSTER_AUTHORIZATION_FAILED") ||
			!strings.Contains(lines[1], "broker 3 (") || !strings.Contains(lines[2], "ListClientConnections (key 93) is not offered") {
			t.Errorf("standard error = %q, want a line for each of the brokers 2, 3 and 4", lines)
		}
	}
}

func TestNamesOfClientsCannotSteerTheTerminal(t *testing.T) {
	evil := "User:\x1b[2J\nroot\t\u202e\u200bx\xff\\\u009b\x7f\U000e0041"
	l := &listing{
		rows: []protocol.ListClientConnectionsResponseConnection{row("a", evil, "10.0.0.5", 1, "s\x1b/1\r", 1)},
		wide: []protocol.DescribeConnectionsResponseConnection{{
			ConnectionID: "a", Principal: evil, ClientID: &evil,
			TLS: &protocol.DescribeConnectionsResponseTLS{PeerSubject: evil, ServerName: evil},
		}},
	}
	c := admintest.Start(t, l.broker(1))
	for _, mode := range []string{"", "--wide"} {
		args := []string{"brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0)}
		if mode != "" {
			args = append(args, mode)
		}
		got := run(t, args...)
		if !strings.Contains(got.out, `User:\x1b[2J\nroot\t\u202e\u200bx\xff\\u009b\x7f\U000e0041`) {
			t.Errorf("list %s escapes the principal as %q", mode, got.out)
		}
		var doc struct{ Connections []struct{ Principal string } }
		asJSON := run(t, append(args, "--format", "json")...)
		if err := json.Unmarshal([]byte(asJSON.out), &doc); err != nil || doc.Connections[0].Principal != strings.ToValidUTF8(evil, "\ufffd") {
			t.Errorf("list %s as JSON = %v, %q", mode, err, asJSON.out)
		}
		if strings.ContainsAny(asJSON.out, "\x1b\t\r\u202e\u200b\u009b\x7f") {
			t.Errorf("list %s as JSON lets through %q", mode, asJSON.out)
		}
		if strings.ContainsAny(got.out, "\x1b\t\r\u202e\u200b") || mode == "" && strings.Count(got.out, "\n") != 2 {
			t.Errorf("list %s lets through %q", mode, got.out)
		}
	}
}

func TestFiltersArePassedOnWhenGiven(t *testing.T) {
	l := new(listing)
	c := admintest.Start(t, l.broker(1))
	run(t, "kafka-client-connections.sh", "--list", "--bootstrap-server="+c.Addr(0), "--principal", "", "--client-address", "::1", "--listener", "ssl")
	r, ok := l.last.(*protocol.ListClientConnectionsRequest)
	if !ok || r.PrincipalFilter == nil || *r.PrincipalFilter != "" || *r.ClientAddressFilter != "::1" || *r.ListenerFilter != "ssl" {
		t.Errorf("request = %+v", l.last)
	}
	run(t, "brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0), "--listener", "SSL")
	if r, ok = l.last.(*protocol.ListClientConnectionsRequest); !ok || r.PrincipalFilter != nil || r.ClientAddressFilter != nil || *r.ListenerFilter != "SSL" {
		t.Errorf("request = %+v", l.last)
	}
	run(t, "brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0), "--wide", "--client-address", "10.0.0.0/8", "--software", "x", "--protocol", "SSL")
	w, ok := l.last.(*protocol.DescribeConnectionsRequest)
	if !ok || *w.AddressFilter != "10.0.0.0/8" || *w.SoftwareFilter != "x" || *w.ProtocolFilter != "SSL" || w.PrincipalFilter != nil || !w.Kernel {
		t.Errorf("request = %+v", l.last)
	}
}

func TestWideNamesTheSourceOfEveryFact(t *testing.T) {
	client := "app"
	l := &listing{wide: []protocol.DescribeConnectionsResponseConnection{
		{
			ConnectionID: "10.0.0.1:9092-10.0.0.5:54321-2-0", Principal: "User:alice", ClientAddress: "10.0.0.5", ClientPort: 54321,
			ListenerName: "SASL_SSL", SecurityProtocol: "SASL_SSL", SoftwareName: "apache-kafka-java", SoftwareVersion: "4.4.0",
			ClientID: &client, State: protocol.StateOpen, ConnectedSince: 1_790_000_000_000, IdleMillis: 1500, BytesIn: 2048, BytesOut: 3 << 20,
			TLS: &protocol.DescribeConnectionsResponseTLS{
				ProtocolVersion: "TLSv1.3", CipherSuite: "TLS_AES_128_GCM_SHA256", ServerName: "kafka.example", PeerSubject: "CN=alice", PeerSerial: "0a", PeerNotAfter: 1_790_000_000_000,
			},
			SASL:   &protocol.DescribeConnectionsResponseSASL{Mechanism: "SCRAM-SHA-256", AuthenticatedSince: 1_790_000_000_000},
			Kernel: &protocol.DescribeConnectionsResponseKernel{State: "ESTAB", Protocol: "tls", RTTMicros: 250, BytesIn: 2100, BytesOut: 100},
		},
		{ConnectionID: "b", State: protocol.StateHandshaking, ListenerName: "SSL", SecurityProtocol: "SSL"},
	}, why: "not privileged"}
	c := admintest.Start(t, l.broker(1))
	got := run(t, "brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0), "--wide")
	want := `node 1    10.0.0.1:9092-10.0.0.5:54321-2-0  User:alice
  broker  open  SASL_SSL (SASL_SSL)  software apache-kafka-java/4.4.0  client-id app
          since 2026-09-21T14:13:20Z  idle 1.5s  in 2.0 KiB  out 3.0 MiB
  tls     TLSv1.3  TLS_AES_128_GCM_SHA256  server-name kafka.example
          peer CN=alice  serial 0a  until 2026-09-21T14:13:20Z
  sasl    SCRAM-SHA-256  since 2026-09-21T14:13:20Z
  kernel  ESTAB  carries tls  rtt 250µs  in 2.1 KiB  out 100 B  (full)
node 1    b  -
  broker  handshaking  SSL (SSL)  software -  client-id -
          since -  idle 0s  in 0 B  out 0 B
  kernel  -  (not privileged)
`
	if got.code != 0 || got.out != want {
		t.Errorf("list --wide = %+v, want\n%s", got, want)
	}
	got = run(t, "brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0), "--wide", "--format", "json")
	var doc struct {
		Connections []struct {
			ConnectionID string
			TLS          *struct{ CipherSuite string }
			Kernel       *struct{ RTTMicros int64 }
			KernelSource string
			Principal    *string
		}
	}
	if err := json.Unmarshal([]byte(got.out), &doc); err != nil {
		t.Fatalf("%v in\n%s", err, got.out)
	}
	if a, b := doc.Connections[0], doc.Connections[1]; a.Kernel.RTTMicros != 250 || a.TLS.CipherSuite == "" || a.KernelSource != "full" || b.TLS != nil || b.Principal != nil {
		t.Errorf("JSON = %s", got.out)
	}
}

func TestWrongCommandLinesSayWhatIsWrong(t *testing.T) {
	c := admintest.Start(t, new(listing).broker(1))
	properties := filepath.Join(t.TempDir(), "client.properties")
	if err := os.WriteFile(properties, []byte("security.protocol=TLS\nrequest.timeout.ms=x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"brokerlab", "connections", "list"}, []string{"bootstrap-server"}},
		{[]string{"brokerlab", "connections", "list", "--bootstrap-server", "::1:9092,host"}, []string{`"::1:9092" is not host:port`, `"host" is not host:port`}},
		{[]string{"brokerlab", "connections", "list", "--bootstrap-server", "a:0,b:99999,[::1]:x"}, []string{`"a:0"`, `"b:99999"`, `"[::1]:x"`}},
		{[]string{"brokerlab", "connections", "list", "--bootstrap-server", " , "}, []string{"no server"}},
		{[]string{"brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0), "--protocol", "SSL", "--client-address", "10.0.0.0/8"}, []string{"--protocol needs --wide", "prefix needs --wide"}},
		{[]string{"brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0), "--format", "yaml"}, []string{"yaml"}},
		{[]string{"brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0), "--command-config", properties}, []string{properties, "security.protocol", "request.timeout.ms"}},
		{[]string{"kafka-client-connections.sh", "--bootstrap-server", c.Addr(0)}, []string{"exactly one action: --list"}},
		{[]string{"kafka-client-connections.sh", "--list"}, []string{"bootstrap-server"}},
		{[]string{"kafka-client-connections.sh", "--list", "--bootstrap-server", c.Addr(0), "--wide"}, []string{"--wide"}},
	} {
		got := run(t, test.args...)
		if got.code == 0 || got.out != "" {
			t.Errorf("%v = %+v, want an error only", test.args, got)
		}
		for _, want := range test.want {
			if !strings.Contains(got.errout, want) {
				t.Errorf("%v says %q, want %q in it", test.args, got.errout, want)
			}
		}
	}
}

func TestPropertiesThatMeanNothingAreWarnedOf(t *testing.T) {
	c := admintest.Start(t, new(listing).broker(1))
	properties := filepath.Join(t.TempDir(), "client.properties")
	if err := os.WriteFile(properties, []byte("my.key=1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := run(t, "brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0), "--command-config", properties)
	if got.code != 0 || !strings.Contains(got.errout, "my.key means nothing here") {
		t.Errorf("list = %+v, want a warning", got)
	}
}

// Every example of --help is a command line that works against a broker on port 9092.
func TestExamplesWorkAsTheyStand(t *testing.T) {
	c := admintest.Start(t, new(listing).broker(1))
	for _, name := range [][]string{{"brokerlab", "connections", "list"}, {"brokerlab", "connections", "watch"}, {"kafka-client-connections.sh"}} {
		help := run(t, append(name, "--help")...)
		_, examples, ok := strings.Cut(help.out, "Examples:\n")
		if !ok {
			t.Fatalf("%v --help has no examples:\n%s", name, help.out)
		}
		examples, _, _ = strings.Cut(examples, "\n\n")
		for line := range strings.Lines(examples) {
			args := strings.Fields(strings.ReplaceAll(line, "localhost:9092", c.Addr(0)))
			if got := run(t, args...); got.code != 0 {
				t.Errorf("%s = %+v", strings.TrimSpace(line), got)
			}
		}
	}
}

func TestNodeNarrowsTheList(t *testing.T) {
	one, two := new(listing), new(listing)
	c := admintest.Start(t, one.broker(1), two.broker(2))
	if got := run(t, "brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0), "--node", "2"); got.code != 0 {
		t.Errorf("list = %+v", got)
	}
	if one.last != nil || two.last == nil {
		t.Errorf("broker 1 got %v, broker 2 %v", one.last, two.last)
	}
	got := run(t, "brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0), "--node", "3")
	if got.code != 1 || !strings.Contains(got.errout, "broker 3: the cluster has no such broker") {
		t.Errorf("list --node 3 = %+v", got)
	}
}
