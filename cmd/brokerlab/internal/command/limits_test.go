package command

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// answering is a fake broker that answers one request of our own.
func answering(node int32, key int16, answer func(kmsg.Request) kmsg.Response) *admintest.Broker {
	return &admintest.Broker{NodeID: node, Keys: []int16{key}, Handle: answer}
}

// An address that may have no connection is closed before a byte; whoever runs into a limit shall not look for TLS alone.
func TestWhoIsClosedAtOnceIsToldOfTheLimitOfAddresses(t *testing.T) {
	t.Parallel()
	b := admintest.Real(t, []string{"listeners=PLAINTEXT://127.0.0.1:0", "max.connections.per.ip=0", "max.connections.per.ip.overrides=127.0.0.2:1"})
	got := run(t, "brokerlab", "connections", "list", "--bootstrap-server", b.Addr("PLAINTEXT").String())
	if got.code != 1 || !strings.Contains(got.errout, "max.connections.per.ip") || !strings.Contains(got.errout, "TLS or SASL") {
		t.Errorf("connections list = %+v, want exit 1 and both reasons", got)
	}
}

// fullListener is a broker whose listener SSL is full: 127.0.0.5 waits for a slot.
func fullListener(node int32) *protocol.DescribeLimitsResponse {
	limit := func(name, listener, scope string, value int64, source, by string, inUse float64) protocol.DescribeLimitsResponseLimit {
		unit := "connections"
		if strings.Contains(name, "rate") {
			unit = "connections/s"
		}
		return protocol.DescribeLimitsResponseLimit{
			Name: name, ListenerName: listener, Scope: scope, Unit: unit, Value: value, Source: source, SetBy: by, InUse: inUse, CountedBy: "broker", Exactness: "exact",
		}
	}
	return &protocol.DescribeLimitsResponse{
		NodeID: node, Time: gonePast, AddressCount: 3,
		Limits: []protocol.DescribeLimitsResponseLimit{
			limit("max.connections", "", "broker", 10, "static", "max.connections", 4),
			limit("max.connection.creation.rate", "", "broker", protocol.NoLimit, "default", "", 0.25),
			limit("max.connections", "SSL", "listener", 2, "dynamic broker", "listener.name.ssl.max.connections", 2),
			limit("max.connections", "INSIDE", "listener", 10, "static", "max.connections", 11),
			limit("connection_creation_rate", "", "address", 5, "client quota", "connection_creation_rate", 1.5),
		},
		Listeners: []protocol.DescribeLimitsResponseListener{
			{
				ListenerName: "SSL", SecurityProtocol: "SSL", Connections: 2, TLS: true, BlockedOneMinute: 0.5,
				AcceptQueue: protocol.DescribeLimitsResponseQueue{Length: 3, Backlog: 50, Overflows: 7, CountedBy: "kernel", Exactness: "exact"},
				Held:        &protocol.DescribeLimitsResponseHeld{Address: "127.0.0.5", Since: gonePast - 1500, WaitsFor: "max.connections", Scope: "listener"},
				Throttled:   6, Queued: 1, Next: protocol.DescribeLimitsResponseNext{Outcome: "waits for a slot", Limit: "max.connections", Scope: "listener"},
			},
			{
				ListenerName: "INSIDE", SecurityProtocol: "PLAINTEXT", Protected: true, Connections: 11, BlockedOneMinute: math.NaN(),
				AcceptQueue: protocol.DescribeLimitsResponseQueue{Overflows: -1, CountedBy: "kernel", Exactness: "unavailable", Why: "not \x1b[2Jallowed"},
				Next:        protocol.DescribeLimitsResponseNext{Outcome: "waits for a rate", Limit: "max.connection.creation.rate", Scope: "broker", Millis: 120},
			},
		},
		Addresses: []protocol.DescribeLimitsResponseAddress{
			{Address: "127.0.0.5", Connections: 2, Max: 2, MaxSource: "static", MaxSetBy: "max.connections.per.ip.overrides", Rate: 5, RateOwn: true, RateSource: "client quota", InUseRate: 1.5, Next: protocol.DescribeLimitsResponseNext{Outcome: "closed at once", Limit: "max.connections.per.ip", Scope: "address"}},
			{Address: "0:0:0:0:0:0:0:1", Connections: 1, Max: protocol.NoLimit, Rate: protocol.NoLimit, Next: protocol.DescribeLimitsResponseNext{Outcome: "admitted"}},
		},
	}
}

func TestLimitsAreShownWithWhoSetThemAndWhoWaits(t *testing.T) {
	t.Parallel()
	c := admintest.Start(t, answering(1, protocol.DefaultDescribeLimitsKey, func(kmsg.Request) kmsg.Response { return fullListener(1) }))
	got := run(t, "brokerlab", "limits", "show", "--bootstrap-server", c.Addr(0))
	//nolint:dupword // a table
	want := `broker 1, 2026-09-21T14:15:00Z: counted by the broker, exact; accept queues by the kernel

LIMIT                         OF            VALUE      IN USE  LEFT   SET BY
max.connections               broker        10         4       6      static
max.connection.creation.rate  broker        unlimited  0.2/s   -      default
max.connections               SSL           2          2       0      dynamic broker
max.connections               INSIDE        10         11      -1     static (broker's)
connection_creation_rate      each address  5/s        1.5/s   3.5/s  client quota

LISTENER  PROTOCOL   OPEN  ACCEPT QUEUE  OVERFLOWS  HELD  HELD BY RATE  QUEUED  BLOCKED
SSL       SSL        2     3 of 50       7          1     6             1       50.0%
INSIDE    PLAINTEXT  11    -             -          0     0             0       -

LISTENER  HELD ADDRESS  FOR   WAITS FOR
SSL       127.0.0.5     1.5s  max.connections of the listener

LISTENER  NEXT CONNECTION
SSL       waits for a slot: max.connections of the listener
INSIDE    waits for a rate, 120ms or more: max.connection.creation.rate of the broker

ADDRESS          OPEN  MAX        RATE   MAX RATE   NEXT CONNECTION
127.0.0.5        2     2 (own)    1.5/s  5/s (own)  closed at once: max.connections.per.ip
0:0:0:0:0:0:0:1  1     unlimited  -      unlimited  admitted
… 2 of 3 addresses are shown (--addresses)
`
	if got.code != 0 || got.out != want {
		t.Errorf("limits show = %d\n%s\nwant\n%s", got.code, got.out, want)
	}
	if want := "brokerlab: broker 1: the accept queue of INSIDE is unavailable: not \\x1b[2Jallowed\n"; got.errout != want {
		t.Errorf("standard error = %q, want %q", got.errout, want)
	}
}

func TestLimitsAsJSONHaveNullForWhatIsNoNumberAndNoLimit(t *testing.T) {
	t.Parallel()
	c := admintest.Start(t, answering(2, protocol.DefaultDescribeLimitsKey, func(kmsg.Request) kmsg.Response { return fullListener(2) }),
		&admintest.Broker{NodeID: 3})
	got := run(t, "brokerlab", "limits", "show", "--bootstrap-server", c.Addr(0), "--format", "json")
	var doc jsonLimits
	if err := json.Unmarshal([]byte(got.out), &doc); err != nil || got.code != 1 || len(doc.Brokers) != 1 || len(doc.Errors) != 1 || doc.Errors[0].NodeID != 3 {
		t.Fatalf("limits show = %v, %+v, want one broker's and another's error", err, got)
	}
	b := doc.Brokers[0]
	if l := b.Limits[1]; l.Value != nil || l.HeadRoom != nil || *l.InUse != 0.25 || l.SetBy != nil || l.CountedBy != "broker" || l.Exactness != "exact" {
		t.Errorf("no limit = %+v", l)
	}
	if l := b.Limits[3]; *l.Value != 10 || *l.HeadRoom != -1 || *l.ListenerName != "INSIDE" {
		t.Errorf("a limit that is exceeded = %+v", l)
	}
	if l := b.Listeners[1]; l.AcceptQueue.Length != nil || l.AcceptQueue.Overflows != nil || *l.AcceptQueue.Why == "" || l.Blocked.OneMinute != nil || l.Held != nil || !l.Protected {
		t.Errorf("a listener whose queue is not known = %+v", l)
	}
	if l := b.Listeners[0]; *l.AcceptQueue.Length != 3 || l.Held.Address != "127.0.0.5" || *l.Held.WaitsFor != "max.connections" || l.Next.Outcome != "waits for a slot" {
		t.Errorf("a full listener = %+v", l)
	}
}

func TestLimitsAreWatchedALineForEachListener(t *testing.T) {
	t.Parallel()
	var asked []*protocol.DescribeLimitsRequest
	c := admintest.Start(t, answering(1, protocol.DefaultDescribeLimitsKey, func(req kmsg.Request) kmsg.Response {
		asked = append(asked, req.(*protocol.DescribeLimitsRequest))
		return fullListener(1)
	}))
	got := run(t, "brokerlab", "limits", "watch", "--bootstrap-server", c.Addr(0), "--interval", "1ms", "--count", "2", "--listener", "ssl", "--client-address", "10.0.0.0/8", "--addresses", "4")
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	want := `time=2026-09-21T14:15:00Z node=1 listener=SSL open=2 max=2 broker_open=4 broker_max=10 ssl_open=- ssl_max=- accept_queue=3/50` +
		` overflows=7 held=1 held_address=127.0.0.5 held_by_rate=6 queued=1 blocked=50.0% next="waits for a slot: max.connections of the listener"`
	if got.code != 0 || len(lines) != 4 || lines[0] != want {
		t.Errorf("limits watch = %+v, want four lines, the first\n%s", got, want)
	}
	if r := asked[0]; *r.ListenerFilter != "ssl" || *r.AddressFilter != "10.0.0.0/8" || r.AddressLimit != 4 {
		t.Errorf("asked for %+v", r)
	}
	got = run(t, "brokerlab", "limits", "watch", "--bootstrap-server", c.Addr(0), "--interval", "1ms", "--count", "2", "--format", "json")
	for line := range strings.Lines(got.out) {
		if err := json.Unmarshal([]byte(line), new(jsonLimits)); err != nil {
			t.Errorf("%v in %q", err, line)
		}
	}
	if strings.Count(got.out, "\n") != 2 {
		t.Errorf("limits watch = %+v, want two lines of JSON", got)
	}
}

// What a broker says may be anything: it never steers the terminal, is never wider than one and always JSON.
func TestHostileLimitsStayWithinTheTerminal(t *testing.T) {
	t.Parallel()
	evil := "\x1b[2J\r" + strings.Repeat("ü", 200)
	hostile := &protocol.DescribeLimitsResponse{NodeID: 1, Time: math.MaxInt64, AddressCount: -5}
	for _, n := range []int64{0, math.MinInt64, math.MaxInt64} {
		f := math.Inf(int(n % 3))
		next := protocol.DescribeLimitsResponseNext{Outcome: evil, Limit: evil, Scope: evil, Millis: n}
		hostile.Limits = append(hostile.Limits, protocol.DescribeLimitsResponseLimit{Name: "n", ListenerName: evil, Scope: "listener", Unit: evil, Value: n, Source: evil, SetBy: evil, InUse: f})
		hostile.Listeners = append(hostile.Listeners, protocol.DescribeLimitsResponseListener{
			ListenerName: evil, SecurityProtocol: "SSL", Connections: 1, Blocked: f, BlockedOneMinute: 1, Next: next,
			AcceptQueue: protocol.DescribeLimitsResponseQueue{Exactness: evil, Why: evil, Length: 1},
			Held:        &protocol.DescribeLimitsResponseHeld{Address: evil, Since: n, WaitsFor: "x", DelayMillis: n},
		})
		hostile.Addresses = append(hostile.Addresses, protocol.DescribeLimitsResponseAddress{Address: evil, Max: 1, Rate: 1, MaxSetBy: evil, InUseRate: f, Next: next})
	}
	c := admintest.Start(t, answering(1, protocol.DefaultDescribeLimitsKey, func(kmsg.Request) kmsg.Response { return hostile }))
	for _, args := range []string{"show", "watch --count 1", "show --format json", "watch --count 1 --format json"} {
		got := run(t, append([]string{"brokerlab", "limits"}, append(strings.Fields(args), "--bootstrap-server", c.Addr(0))...)...)
		if got.code != 0 || strings.ContainsAny(got.out+got.errout, "\x1b\r") {
			t.Errorf("%s = %+v", args, got)
		}
		if strings.Contains(args, "json") {
			if err := json.Unmarshal([]byte(got.out), new(jsonLimits)); err != nil {
				t.Errorf("%s = %v, %s", args, err, got.out)
			}
			continue
		}
		for line := range strings.Lines(got.out) {
			if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > tableWidth && args == "show" {
				t.Errorf("%s has a line of %d columns: %s", args, n, line)
			}
		}
	}
}

func TestWrongCommandLinesAboutLimitsAreRefusedBeforeABrokerIsAsked(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"limits show --addresses 0":                     "--addresses",
		"limits show --client-address 10.0.0":           "neither an IP address nor a prefix",
		"limits watch --interval 0s":                    "--interval",
		"limits watch --count -1":                       "--count",
		"connections close":                             "--all",
		"connections close --all --limit -1":            "--limit",
		"connections timeline":                          "its id",
		"connections timeline --client-port 65536":      "--client-port",
		"connections timeline x --limit 0":              "--limit",
		"connections timeline --client-address x":       "neither an IP address nor a prefix",
		"connections timeline a b":                      "accepts at most 1 arg",
		"connections timeline --client-address ::1/129": "neither an IP address nor a prefix",
	} {
		got := run(t, append([]string{"brokerlab"}, append(strings.Fields(args), "--bootstrap-server", "127.0.0.1:1")...)...)
		if got.code != 2 || !strings.Contains(got.errout, want) || got.out != "" {
			t.Errorf("%s = %+v, want exit 2 and %q", args, got, want)
		}
	}
}

func TestABrokersRefusalOfLimitsIsItsError(t *testing.T) {
	t.Parallel()
	for key, args := range map[int16]string{
		protocol.DefaultDescribeLimitsKey:   "limits show",
		protocol.DefaultCloseConnectionsKey: "connections close --all --yes",
		protocol.DefaultDescribeTimelineKey: "connections timeline x",
	} {
		c := admintest.Start(t, answering(1, key, func(req kmsg.Request) kmsg.Response {
			code, text := kerr.ClusterAuthorizationFailed.Code, new("Cluster authorization failed.")
			switch resp := req.ResponseKind().(type) {
			case *protocol.DescribeLimitsResponse:
				resp.ErrorCode, resp.ErrorMessage = code, text
				return resp
			case *protocol.CloseConnectionsResponse:
				resp.ErrorCode, resp.ErrorMessage = code, text
				return resp
			case *protocol.DescribeConnectionTimelineResponse:
				resp.ErrorCode, resp.ErrorMessage = code, text
				return resp
			}
			return nil
		}))
		got := run(t, append([]string{"brokerlab"}, append(strings.Fields(args), "--bootstrap-server", c.Addr(0))...)...)
		if got.code != 1 || !strings.Contains(got.errout, "broker 1 ("+c.Addr(0)+"): CLUSTER_AUTHORIZATION_FAILED") {
			t.Errorf("%s = %+v, want exit 1 and the broker's error", args, got)
		}
	}
}
