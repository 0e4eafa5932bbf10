package command

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// ended is a connection that has ended and the broker that had it.
type ended struct {
	node int32
	now  int64 // of that broker, when it answered
	*protocol.DescribeClosedConnectionsResponseConnection
}

func endedOf(a *protocol.DescribeClosedConnectionsResponse, i int) ended {
	return ended{a.NodeID, a.Time, &a.Connections[i]}
}

// listed is the connection as a list had shown it.
func (e *ended) listed() admin.ClientConnection {
	return admin.ClientConnection{
		NodeID: e.node,
		ListClientConnectionsResponseConnection: protocol.ListClientConnectionsResponseConnection{
			ConnectionID: e.ConnectionID, Principal: e.Principal, PrincipalType: e.PrincipalType, ClientAddress: e.ClientAddress,
			ClientPort: e.ClientPort, ListenerName: e.ListenerName, SecurityProtocol: e.SecurityProtocol,
			SoftwareName: e.SoftwareName, SoftwareVersion: e.SoftwareVersion, ConnectedSince: e.ConnectedSince,
		},
	}
}

func (e *ended) lifetime() time.Duration {
	return time.Duration(e.ClosedAt-e.ConnectedSince) * time.Millisecond
}

// ago is how long the connection has been closed.
func (e *ended) ago() time.Duration { return time.Duration(e.now-e.ClosedAt) * time.Millisecond }

func closedColumns() []column[ended] {
	return append(
		listColumns((*ended).listed),
		by("closed-at", func(e *ended) int64 { return e.ClosedAt }),
		by("lasted", (*ended).lifetime),
		by("reason", func(e *ended) string { return e.Reason }),
		by("in", func(e *ended) int64 { return e.BytesIn }),
		by("out", func(e *ended) int64 { return e.BytesOut }),
	)
}

// closedFilter is a filter of open connections, for closed ones.
func closedFilter(f admin.DescribeFilter) admin.ClosedFilter {
	return admin.ClosedFilter{
		Principal: f.Principal, Address: f.Address, Listener: f.Listener, Protocol: f.Protocol, Software: f.Software, Nodes: f.Nodes,
	}
}

func (o *connectionsOptions) runClosed(c *cobra.Command, env Env) error {
	order, err := arrange(&o.orderOptions, closedColumns())
	if err != nil {
		return err
	}
	f := closedFilter(o.filter(c))
	f.Reason = given(c, "reason", o.reason)
	return o.withCluster(c.Context(), env, func(ctx context.Context, cl *admin.Client) error {
		answers, err := cl.DescribeClosedConnections(ctx, f)
		var rows []ended
		for _, a := range answers {
			for i := range a.Connections {
				rows = append(rows, endedOf(a, i))
			}
		}
		slices.SortStableFunc(rows, func(a, b ended) int { // the latest first
			return cmp.Or(cmp.Compare(b.ClosedAt, a.ClosedAt), cmp.Compare(a.node, b.node), cmp.Compare(b.Sequence, a.Sequence))
		})
		total := len(rows)
		rows = order(rows)
		return printed(env, err, func() error { return o.printClosed(env, rows, total, answers, err) })
	})
}

// jsonClosed is the document of --closed with --format json.
type jsonClosed struct {
	Connections []jsonEnded      `json:"connections"`
	Total       *int             `json:"total,omitempty"` // connections before --limit
	Brokers     []jsonRemembered `json:"brokers"`
	Errors      []jsonError      `json:"errors"`
}

type jsonEnded struct {
	jsonConnection

	ClientID   *string `json:"clientId"`
	Sequence   int64   `json:"sequence"`
	ClosedAt   *string `json:"closedAt"`
	LifetimeMs int64   `json:"lifetimeMs"`
	Reason     string  `json:"reason"`
	BytesIn    int64   `json:"bytesIn"`
	BytesOut   int64   `json:"bytesOut"`
}

// jsonRemembered is how much of the past a broker remembers.
type jsonRemembered struct {
	NodeID        int32   `json:"nodeId"`
	Closed        int64   `json:"closed"` // since it started
	Remembers     int32   `json:"remembers"`
	CompleteSince *string `json:"completeSince"` // null: it has forgotten nothing
}

func (o *connectionsOptions) printClosed(
	env Env, rows []ended, total int, answers []*protocol.DescribeClosedConnectionsResponse, err error,
) error {
	if o.format == formatJSON {
		doc := jsonClosed{
			Connections: make([]jsonEnded, len(rows)), Total: cutTotal(len(rows), total),
			Brokers: make([]jsonRemembered, len(answers)), Errors: jsonErrors(err),
		}
		for i := range rows {
			r := &rows[i]
			listed := r.listed()
			doc.Connections[i] = jsonEnded{
				jsonConnection: jsonOf(&listed), ClientID: r.ClientID, Sequence: r.Sequence, ClosedAt: timestamp(r.ClosedAt),
				LifetimeMs: r.lifetime().Milliseconds(), Reason: r.Reason, BytesIn: r.BytesIn, BytesOut: r.BytesOut,
			}
		}
		for i, a := range answers {
			doc.Brokers[i] = jsonRemembered{a.NodeID, a.Sequence, a.Capacity, timestamp(a.CompleteSince)}
		}
		return printJSON(env.Stdout, doc)
	}
	if err := o.writeClosed(env, rows); err != nil {
		return err
	}
	for _, a := range answers {
		if a.CompleteSince == 0 {
			continue
		}
		_, err := fmt.Fprintf(env.Stderr, "brokerlab: broker %d remembers the last %d of %d, all since %s\n", a.NodeID, a.Capacity, a.Sequence, since(a.CompleteSince))
		if err != nil {
			return err
		}
	}
	return noteCut(env, len(rows), total, "connections")
}

func (o *connectionsOptions) writeClosed(env Env, rows []ended) error {
	if o.wide {
		w := bufio.NewWriter(env.Stdout)
		for i := range rows {
			writeEnded(w, &rows[i])
		}
		return w.Flush() // remembers the first error
	}
	table := [][]string{{"AGO", "LASTED", "REASON", "PRINCIPAL", "CLIENT", "LISTENER", "IN", "OUT"}}
	for i := range rows {
		r := &rows[i]
		table = append(table, []string{
			age(r.ago()), age(r.lifetime()), shown(r.Reason), shown(r.Principal), clientOf(r), shown(r.ListenerName),
			byteCount(uint64(max(r.BytesIn, 0))), byteCount(uint64(max(r.BytesOut, 0))),
		})
	}
	const principal, client, listener = 3, 4, 5
	return printTable(env.Stdout, table, principal, client, listener)
}

// writeEnded writes all that is remembered of one connection. The writer keeps the first error for Flush.
func writeEnded(w *bufio.Writer, r *ended) {
	id, client := shown(r.ConnectionID), unknown
	if r.ConnectionID == "" {
		id = clientOf(r) + " (refused)"
	}
	if r.ClientID != nil {
		client = shown(*r.ClientID)
	}
	fmt.Fprintf(w, "node %-4d %s  %s\n", r.node, id, shown(r.Principal))
	fmt.Fprintf(w, "  closed  %s  %s  after %s  in %s  out %s\n", since(r.ClosedAt), shown(r.Reason), age(r.lifetime()),
		byteCount(uint64(max(r.BytesIn, 0))), byteCount(uint64(max(r.BytesOut, 0))))
	fmt.Fprintf(w, "  broker  %s (%s)  software %s  client-id %s  since %s\n", shown(r.ListenerName), shown(r.SecurityProtocol),
		software(r.SoftwareName, r.SoftwareVersion), client, since(r.ConnectedSince))
}

// clientOf is the client's end in the short form of an address.
func clientOf(r *ended) string {
	a, err := netip.ParseAddr(r.ClientAddress)
	if err != nil || r.ClientPort < 0 || r.ClientPort > 65535 {
		return shown(r.ClientAddress) + ":" + strconv.Itoa(int(r.ClientPort))
	}
	return shown(netip.AddrPortFrom(a, uint16(r.ClientPort)).String())
}

// age prints a duration in two units at most.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}
