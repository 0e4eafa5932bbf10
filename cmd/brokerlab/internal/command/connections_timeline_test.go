package command

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

func happened(name string, at, took int64, limit, scope, source, exactness string) protocol.DescribeConnectionTimelineResponseEvent {
	return protocol.DescribeConnectionTimelineResponseEvent{Name: name, At: at, Micros: took, Limit: limit, Scope: scope, CountedBy: source, Exactness: exactness}
}

const timelineStart = 1_790_000_000_000_000

// waitedFor is a broker that knows one open connection, which waited for a rate and a slot, and a refused socket.
func waitedFor() *protocol.DescribeConnectionTimelineResponse {
	const ms, start = 1000, timelineStart
	return &protocol.DescribeConnectionTimelineResponse{
		NodeID: 1, Time: start + 4000*ms, Matched: 9, CompleteSince: start / ms,
		Connections: []protocol.DescribeConnectionTimelineResponseConnection{
			{
				ClientAddress: "10.0.0.7", ClientPort: 7, ListenerName: "SSL", SecurityProtocol: "SSL", State: "refused", Reason: "per_ip_rate", ClosedBy: "broker",
				Events: []protocol.DescribeConnectionTimelineResponseEvent{
					happened("accepted", start, 0, "", "", "broker", "exact"),
					happened("closed", start+1000*ms, 1000*ms, "connection_creation_rate", "address", "broker", "exact"),
				},
			},
			{
				ConnectionID: "10.0.0.1:9093-10.0.0.7:8-0-3", Principal: "User:alice", ClientAddress: "10.0.0.7", ClientPort: 8, ListenerName: "SSL",
				SecurityProtocol: "SSL", SoftwareName: "librdkafka", SoftwareVersion: "2.3", ClientID: new("orders"), State: "open",
				Events: []protocol.DescribeConnectionTimelineResponseEvent{
					happened("established", start, 0, "", "", "kernel", "rounded"),
					happened("accepted", start+200*ms, 0, "", "", "broker", "exact"),
					happened("waited for rate", start+1000*ms, 800*ms, "max.connection.creation.rate", "", "broker", "exact"),
					happened("waited for slot", start+3000*ms, 2000*ms, "max.ssl.connections", "broker", "broker", "exact"),
					happened("admitted", start+3000*ms, 0, "", "", "broker", "exact"),
					happened("tls done", start+3002*ms, 0, "", "", "broker", "exact"),
					happened("last active", start+3002*ms+5, 998*ms, "", "", "broker", "exact"),
				},
			},
		},
	}
}

func TestATimelineIsDrawnToScale(t *testing.T) {
	t.Parallel()
	var asked *protocol.DescribeConnectionTimelineRequest
	c := admintest.Start(t, answering(1, protocol.DefaultDescribeTimelineKey, func(req kmsg.Request) kmsg.Response {
		asked = req.(*protocol.DescribeConnectionTimelineRequest)
		return waitedFor()
	}))
	got := run(t, "brokerlab", "connections", "timeline", "--bootstrap-server", c.Addr(0), "--client-address", "10.0.0.0/24", "--limit", "2")
	want := `10.0.0.7:7 to SSL (SSL) of broker 1, -, refused
from 2026-09-21T14:13:20.000Z
  +0s       broker  accepted         ▏
  +1s       broker  closed           ████████████████████  by the broker: per_ip_rate, held 1s

10.0.0.7:8 to SSL (SSL) of broker 1, User:alice, open
id 10.0.0.1:9093-10.0.0.7:8-0-3
software librdkafka/2.3, client-id orders
from 2026-09-21T14:13:20.000Z
  +0s       kernel  established      ▏                     rounded
  +200ms    broker  accepted         █                     200ms in the accept queue
  +1s       broker  waited for rate   ████                 800ms for max.connection.creation.rate
  +3s       broker  waited for slot       ██████████       2s for max.ssl.connections of the broker
  +3s       broker  admitted                        ▏
  +3s       broker  tls done                        ▏
  +3s       broker  last active                     ▏
  +4s       broker  now                             █████  idle 998ms
`
	if got.code != 0 || got.out != want {
		t.Errorf("timeline = %d\n%s\nwant\n%s", got.code, got.out, want)
	}
	if want := "brokerlab: broker 1 has 9 such connections; the last 2 are shown (--limit)\n"; got.errout != want {
		t.Errorf("standard error = %q, want %q", got.errout, want)
	}
	if asked.ConnectionID != nil || *asked.AddressFilter != "10.0.0.0/24" || asked.Most != 2 {
		t.Errorf("asked for %+v", asked)
	}
	got = run(t, "brokerlab", "connections", "timeline", "an id", "--bootstrap-server", c.Addr(0), "--client-port", "8", "--listener", "ssl", "--format", "json")
	var doc jsonTimelines
	if err := json.Unmarshal([]byte(got.out), &doc); err != nil || len(doc.Connections) != 2 || doc.Connections[0].ConnectionID != nil || *doc.Connections[0].ClosedBy != "broker" {
		t.Fatalf("as JSON = %v, %+v", err, got)
	}
	if e := doc.Connections[1].Events[3]; e.Micros != 2_000_000 || *e.Limit != "max.ssl.connections" || *e.Scope != "broker" || *e.At != "2026-09-21T14:13:23.000000Z" || e.CountedBy != "broker" {
		t.Errorf("event = %+v", e)
	}
	if *asked.ConnectionID != "an id" || asked.ClientPort != 8 || *asked.ListenerFilter != "ssl" || asked.Most != 10 {
		t.Errorf("asked for %+v", asked)
	}
}

func TestAConnectionThatNoBrokerKnowsIsSaidToBeUnknown(t *testing.T) {
	t.Parallel()
	c := admintest.Start(t, answering(1, protocol.DefaultDescribeTimelineKey, func(kmsg.Request) kmsg.Response {
		return &protocol.DescribeConnectionTimelineResponse{NodeID: 1, CompleteSince: 1_790_000_000_000}
	}))
	got := run(t, "brokerlab", "connections", "timeline", "gone", "--bootstrap-server", c.Addr(0))
	if got.code != 1 || got.out != "" || !strings.Contains(got.errout, "broker 1 knows no such connection; of those that ended it remembers all since 2026-09-21T14:13:20Z") {
		t.Errorf("timeline = %+v", got)
	}
}

func TestHostileTimelinesStayWithinTheTerminal(t *testing.T) {
	t.Parallel()
	evil := "\x1b[2J\r\n" + strings.Repeat("w ", 100) + strings.Repeat("ü", 300)
	hostile := &protocol.DescribeConnectionTimelineResponse{NodeID: 1, Time: math.MinInt64, Matched: math.MaxInt64}
	for _, at := range []int64{0, math.MinInt64, math.MaxInt64, 5} {
		e := happened(evil, at, math.MinInt64, evil, evil, evil, evil)
		named := e
		named.Name = protocol.EventClosed
		waited := e
		waited.Name, waited.Micros = protocol.EventWaitedSlot, math.MaxInt64
		hostile.Connections = append(hostile.Connections, protocol.DescribeConnectionTimelineResponseConnection{
			ConnectionID: evil, Principal: evil, ClientAddress: evil, ClientPort: -5, ListenerName: evil, SecurityProtocol: evil, SoftwareName: evil,
			ClientID: &evil, State: evil, Reason: evil, ClosedBy: evil, ClosedFor: evil,
			Events: []protocol.DescribeConnectionTimelineResponseEvent{e, happened("x", math.MaxInt64, 1, "", "", "", ""), waited, named},
		}, protocol.DescribeConnectionTimelineResponseConnection{})
	}
	c := admintest.Start(t, answering(1, protocol.DefaultDescribeTimelineKey, func(kmsg.Request) kmsg.Response { return hostile }))
	got := run(t, "brokerlab", "connections", "timeline", "x", "--bootstrap-server", c.Addr(0))
	if got.code != 0 || strings.ContainsAny(got.out+got.errout, "\x1b\r") {
		t.Errorf("timeline = %+v", got)
	}
	for line := range strings.Lines(got.out) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > tableWidth {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	got = run(t, "brokerlab", "connections", "timeline", "x", "--bootstrap-server", c.Addr(0), "--format", "json")
	if err := json.Unmarshal([]byte(got.out), new(jsonTimelines)); err != nil || strings.ContainsAny(got.out, "\x1b\r") {
		t.Errorf("as JSON: %v", err)
	}
}
