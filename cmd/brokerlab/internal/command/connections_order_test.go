package command

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// ids are the first fields of a table's lines.
func ids(out string) []string {
	var all []string
	for line := range strings.Lines(out) {
		all = append(all, strings.Fields(line)[0])
	}
	return all[1:]
}

func TestTheListIsSortedThenCutAndSaysSo(t *testing.T) {
	t.Parallel()
	l := &listing{rows: []protocol.ListClientConnectionsResponseConnection{
		row("a", "User:bob", "10.0.0.10", 3, "x/1", 30), row("b", "User:alice", "10.0.0.9", 2, "x/1", 20),
		row("c", "User:alice", "0:0:0:0:0:0:0:1", 10, "", 10),
	}}
	c := admintest.Start(t, l.broker(1))
	for sort, want := range map[string]string{
		"": "abc", "principal": "bca", "principal:desc": "abc", "client-address": "bac", "client-address:desc": "cab",
		"port": "bac", "PORT:DESC": "cab", "principal,port:desc": "cba", "connected-since": "cba", "software": "cab",
	} {
		got := run(t, "brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0), "--sort", sort)
		if sort == "" {
			got = run(t, "brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0))
		}
		if order := strings.Join(ids(got.out), ""); got.code != 0 || order != want || got.errout != "" {
			t.Errorf("--sort %s = %s, want %s (%+v)", sort, order, want, got)
		}
	}
	got := run(t, "brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0), "--sort", "port:desc", "--limit", "2")
	if !slices.Equal(ids(got.out), []string{"c", "a"}) || !strings.Contains(got.errout, "2 of 3 connections") {
		t.Errorf("--limit 2 = %+v", got)
	}
	got = run(t, "brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0), "--limit", "1", "--format", "json")
	var doc struct {
		Connections []jsonConnection
		Total       *int
	}
	if err := json.Unmarshal([]byte(got.out), &doc); err != nil || len(doc.Connections) != 1 || doc.Total == nil || *doc.Total != 3 {
		t.Errorf("--limit 1 as JSON = %v, %+v", err, got)
	}
}

func TestWideAndClosedHaveColumnsOfTheirOwnToSortBy(t *testing.T) {
	t.Parallel()
	l := &listing{
		wide: []protocol.DescribeConnectionsResponseConnection{{ConnectionID: "a", BytesIn: 1}, {ConnectionID: "b", BytesIn: 7}},
		gone: []protocol.DescribeClosedConnectionsResponseConnection{
			{Sequence: 1, ConnectionID: "a", Reason: "idle", ConnectedSince: 1, ClosedAt: gonePast - 9000},
			{Sequence: 2, ConnectionID: "b", Reason: "killed", ConnectedSince: gonePast - 9000, ClosedAt: gonePast - 8000},
		},
	}
	c := admintest.Start(t, l.broker(1))
	for _, test := range []struct{ args, first string }{
		{"--wide --sort in:desc", "node 1    b"},
		{"--wide --sort in", "node 1    a"},
		{"--closed --wide", "node 1    b"},
		{"--closed --wide --sort lasted:desc", "node 1    a"},
		{"--closed --wide --sort reason", "node 1    a"},
	} {
		got := run(t, append([]string{"brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0)}, strings.Fields(test.args)...)...)
		if got.code != 0 || !strings.HasPrefix(got.out, test.first) {
			t.Errorf("%s = %+v, want %q first", test.args, got, test.first)
		}
	}
}

func TestWrongOrdersAndGroupsAreRefusedBeforeAnyoneIsAsked(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"list --sort rtt":                              `no column "rtt"`,
		"list --sort port:up":                          `"up" is no direction`,
		"list --limit -1":                              "--limit",
		"list --group-by colour":                       `"colour" is none of`,
		"list --group-by subnet --subnet-prefix 33":    `"33" is not a number of bits`,
		"list --group-by subnet --subnet-prefix a,64":  `"a" is not`,
		"list --group-by subnet --subnet-prefix 1,2,3": "more than",
		"list --group-by subnet --sort port":           "connections, opened, closed",
		"list --closed --group-by subnet":              "two lists",
		"list --reason idle":                           "--reason needs --closed",
		"watch --interval 0s":                          "--interval",
		"watch --count -1":                             "--count",
		"watch --principal alice":                      "User:alice",
	} {
		got := run(t, append([]string{"brokerlab", "connections"}, append(strings.Fields(args), "--bootstrap-server", "127.0.0.1:1")...)...)
		if got.code == 0 || !strings.Contains(got.errout, want) || got.out != "" {
			t.Errorf("connections %s = %+v, want %q", args, got, want)
		}
	}
}

func TestTablesAreCutToAHundredColumns(t *testing.T) {
	t.Parallel()
	evil := "User:\x1b[2J" + strings.Repeat("ü", 300)
	l := &listing{
		rows: []protocol.ListClientConnectionsResponseConnection{row("a", evil, "2001:db8:1111:2222:3333:4444:5555:6666", 1, "x", 1)},
		gone: []protocol.DescribeClosedConnectionsResponseConnection{{
			ConnectionID: "a", Principal: evil, ClientAddress: "2001:db8:1111:2222:3333:4444:5555:6666", ClientPort: 54321, ListenerName: strings.Repeat("L", 40),
			Reason: "evicted_max_ssl_connections", ConnectedSince: 1, ClosedAt: gonePast - 1, BytesIn: 1 << 40, BytesOut: 1 << 40, SoftwareName: "s\r",
		}},
	}
	c := admintest.Start(t, l.broker(1))
	for _, args := range []string{"--group-by principal", "--group-by subnet", "--closed"} {
		got := run(t, append([]string{"brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0)}, strings.Fields(args)...)...)
		if got.code != 0 || strings.Count(got.out, "\n") != 2 || strings.ContainsAny(got.out, "\x1b\r") {
			t.Errorf("%s = %+v", args, got)
		}
		for line := range strings.Lines(got.out) {
			if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > tableWidth {
				t.Errorf("%s has a line of %d columns: %s", args, n, line)
			}
		}
	}
	got := run(t, "brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0), "--closed", "--wide")
	if got.code != 0 || strings.ContainsAny(got.out, "\x1b\r") || !strings.Contains(got.out, `User:\x1b[2J`) {
		t.Errorf("--closed --wide = %+v", got)
	}
}

func TestGroupsCountWhatIsOpenAndWhatHappenedInTheLastMinute(t *testing.T) {
	t.Parallel()
	const second = 1000
	l := &listing{
		rows: []protocol.ListClientConnectionsResponseConnection{
			row("a", "User:bob", "10.0.0.1", 1, "x/1", gonePast-90*second), row("b", "User:bob", "10.0.0.200", 1, "x/1", gonePast-10*second),
			row("c", "User:alice", "2001:db8:0:1:0:0:0:1", 1, "", gonePast-90*second),
		},
		gone: []protocol.DescribeClosedConnectionsResponseConnection{
			{ConnectionID: "old", Principal: "User:bob", ClientAddress: "10.0.0.3", ConnectedSince: gonePast - 99*second, ClosedAt: gonePast - 61*second},
			{ConnectionID: "d", Principal: "User:bob", ClientAddress: "10.0.0.3", ConnectedSince: gonePast - 90*second, ClosedAt: gonePast - 30*second},
			{ConnectionID: "e", Principal: "User:bob", ClientAddress: "10.0.0.3", ConnectedSince: gonePast - 20*second, ClosedAt: gonePast - 18*second},
			{ConnectionID: "f", Principal: "User:bob", ClientAddress: "10.0.0.3", ConnectedSince: gonePast - 20*second, ClosedAt: gonePast - 17*second},
			{ConnectionID: "", Principal: "", ClientAddress: "10.0.0.9", ConnectedSince: gonePast, ClosedAt: gonePast, Reason: "per_ip_limit"},
		},
	}
	c := admintest.Start(t, l.broker(1))
	list := func(args ...string) ran {
		return run(t, append([]string{"brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0)}, args...)...)
	}
	for by, want := range map[string]string{
		"subnet": `SUBNET              CONNECTIONS  OPENED/MIN  CLOSED/MIN  MEDIAN-LIFETIME
10.0.0.0/24         2            3           3           3s
2001:db8:0:1::/64   1            0           0           -
`,
		"principal": `PRINCIPAL   CONNECTIONS  OPENED/MIN  CLOSED/MIN  MEDIAN-LIFETIME
User:bob    2            3           3           3s
User:alice  1            0           0           -
`,
	} {
		if got := list("--group-by", by); got.code != 0 || strings.Join(strings.Fields(got.out), " ") != strings.Join(strings.Fields(want), " ") {
			t.Errorf("--group-by %s = %+v, want\n%s", by, got, want)
		}
	}
	if got := list("--group-by", "subnet", "--subnet-prefix", "25,48", "--sort", "group:desc", "--limit", "1"); got.code != 0 ||
		!slices.Equal(ids(got.out), []string{"2001:db8::/48"}) || !strings.Contains(got.errout, "1 of 3 groups") {
		t.Errorf("--subnet-prefix 25,48 = %+v", got)
	}
	var doc jsonGroups
	got := list("--group-by", "software", "--format", "json")
	if err := json.Unmarshal([]byte(got.out), &doc); err != nil || doc.Exactness != "exact" || len(doc.Groups) != 2 ||
		doc.Groups[0].Connections != 2 || doc.Groups[1].Group != nil || *doc.Groups[1].ClosedLastMinute != 3 {
		t.Errorf("--group-by software as JSON = %v, %+v", err, got)
	}
}

// A broker that only has KIP-1329's request still counts; what it cannot know is a dash.
func TestGroupsWorkWithoutBrokerlabsOwnRequests(t *testing.T) {
	t.Parallel()
	l := &listing{rows: []protocol.ListClientConnectionsResponseConnection{row("a", "User:bob", "10.0.0.1", 1, "x/1", 1)}}
	b := l.broker(1)
	b.Keys = b.Keys[:1]
	c := admintest.Start(t, b)
	got := run(t, "brokerlab", "connections", "list", "--bootstrap-server", c.Addr(0), "--group-by", "listener")
	if got.code != 0 || got.errout != "" || !strings.Contains(strings.Join(strings.Fields(got.out), " "), "SASL_SSL 1 - - -") {
		t.Errorf("--group-by listener = %+v", got)
	}
	got = run(t, "brokerlab", "connections", "watch", "--bootstrap-server", c.Addr(0), "--interval", "1ms", "--count", "2")
	if lines := strings.Split(strings.TrimSpace(got.out), "\n"); got.code != 0 || len(lines) != 2 ||
		!strings.Contains(lines[1], `connections=1 opened=≥0 closed=≥0`) || !strings.Contains(lines[0], "opened=- ") {
		t.Errorf("watch = %+v", got)
	}
}

func TestAgesHaveTwoUnits(t *testing.T) {
	t.Parallel()
	for millis, want := range map[int64]string{0: "0s", 12: "12ms", 1234: "1.2s", 61_000: "1m1s", 3_720_000: "1h2m", 90_000_000: "1d1h"} {
		if got := age((&ended{
			now: millis, DescribeClosedConnectionsResponseConnection: new(protocol.DescribeClosedConnectionsResponseConnection),
		}).ago()); got != want {
			t.Errorf("age(%d ms) = %s, want %s", millis, got, want)
		}
	}
}

func TestATallyCountsEachConnectionOnce(t *testing.T) {
	t.Parallel()
	type look struct {
		open, closed string // connection ids of one letter
		want         string // opened, closed
	}
	for name, looks := range map[string][]look{
		"open and close":             {{"ab", "", "0 0"}, {"abc", "", "1 0"}, {"c", "ab", "0 2"}, {"c", "", "0 0"}},
		"between two looks":          {{"", "", "0 0"}, {"", "ab", "2 2"}},
		"closed after it was listed": {{"a", "", "0 0"}, {"a", "a", "0 1"}, {"", "", "0 0"}},
		"told of late":               {{"a", "", "0 0"}, {"", "", "0 1"}, {"", "a", "0 0"}},
		"new, closed after listing":  {{"", "", "0 0"}, {"a", "a", "1 1"}, {"", "", "0 0"}},
	} {
		tl := &tally{brokers: map[int32]*seen{}}
		sequence := int64(0)
		for i, l := range looks {
			answer := &protocol.DescribeClosedConnectionsResponse{NodeID: 1, Capacity: 10}
			for _, id := range l.closed {
				sequence++
				answer.Connections = append(answer.Connections, protocol.DescribeClosedConnectionsResponseConnection{ConnectionID: string(id), Sequence: sequence})
			}
			answer.Sequence = sequence
			ch := tl.look(timeOf(i), rowsOf(l.open), []*protocol.DescribeClosedConnectionsResponse{answer})
			if got := fmt.Sprint(ch.opened, " ", ch.closed); got != l.want || ch.lower || ch.known != (i > 0) || ch.open != len(l.open) {
				t.Errorf("%s: look %d = %s (%+v), want %s", name, i, got, ch, l.want)
			}
		}
	}
}

func TestATallySaysWhenItMayHaveMissedSome(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]*protocol.DescribeClosedConnectionsResponse{
		"more than it remembers": {NodeID: 1, Capacity: 2, Sequence: 3},
		"restarted":              {NodeID: 1, Capacity: 2, Incarnation: 9},
		"no answer":              nil,
	} {
		tl := &tally{brokers: map[int32]*seen{}}
		tl.look(timeOf(0), rowsOf("a"), []*protocol.DescribeClosedConnectionsResponse{{NodeID: 1, Capacity: 2}})
		var answers []*protocol.DescribeClosedConnectionsResponse
		if second != nil {
			answers = append(answers, second)
		}
		if ch := tl.look(timeOf(1), rowsOf("a"), answers); !ch.lower {
			t.Errorf("%s: %+v is no lower bound", name, ch)
		}
	}
}
