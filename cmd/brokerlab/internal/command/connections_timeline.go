package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// timelineOptions are the flags of brokerlab connections timeline.
type timelineOptions struct {
	bootstrapOptions

	address  string
	port     int32
	listener string
	limit    int32
	nodes    []int32
	format   format
}

func newConnectionsTimeline(env Env) *cobra.Command {
	var o timelineOptions
	c := &cobra.Command{
		Use:   "timeline [ID] --bootstrap-server host:port",
		Short: "Tell what happened to a connection, step by step",
		Long: `Tell what happened to a connection, step by step: established, accepted, waited for a rate, waited for a slot (each with
the limit), admitted, registered, TLS, authenticated, first request, last active, closed by whom and why. Open connections
are told of, those that ended last (a broker remembers 4,096), and sockets that were refused, which have no id.

Name a connection by its id, as the lists show it, or the connections of a client by where they are from; those that came
last are at the end. Each line has its source. When a connection was established the kernel tells, to a few milliseconds:
what lies between that and accepted it spent in the accept queue. The rest the broker has noted.

The bar beside a line is the time from the line before to this one, drawn to scale.

Needs DESCRIBE on the cluster. Exit status: 0, or 1 when a broker did not answer or no broker knows such a connection.`,
		Example: `  brokerlab connections timeline --bootstrap-server localhost:9092 --client-address 10.0.0.7
  brokerlab connections timeline --bootstrap-server localhost:9092 --listener PLAINTEXT --limit 1
  brokerlab connections timeline --bootstrap-server localhost:9092 --client-port 41234 --format json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, env, args) },
	}
	addBootstrap(c, &o.bootstrapOptions)
	f := c.Flags()
	f.StringVar(&o.address, "client-address", "", "only connections from this IP `address` or prefix such as 10.0.0.0/8")
	f.Int32Var(&o.port, "client-port", 0, "only connections from this `port` of the client; 0 for any")
	f.StringVar(&o.listener, "listener", "", "only connections to the listener of this `NAME`")
	f.Int32Var(&o.limit, "limit", 10, "of each broker at most so `many`, those that came last")
	addNodes(c, &o.nodes)
	addFormat(c, &o.format)
	return c
}

func (o *timelineOptions) run(c *cobra.Command, env Env, args []string) error {
	f := admin.TimelineFilter{
		Address: given(c, "client-address", o.address), Port: o.port, Listener: given(c, "listener", o.listener), Most: o.limit, Nodes: o.nodes,
	}
	if len(args) > 0 {
		f.ID = &args[0]
	}
	const ports = 1 << 16
	switch {
	case f.ID == nil && f.Address == nil && f.Listener == nil && f.Port == 0:
		return usage("which connection: its id, --client-address, --client-port or --listener (see brokerlab connections timeline --help)")
	case o.port < 0 || o.port >= ports:
		return usage("--client-port is between 1 and 65535, and 0 is any")
	case o.limit < 1:
		return usage("--limit must be at least 1")
	}
	if err := checkAddress(c, o.address); err != nil {
		return err
	}
	return o.withCluster(c.Context(), env, func(ctx context.Context, cl *admin.Client) error {
		answers, err := cl.DescribeConnectionTimeline(ctx, f)
		if failed := printed(env, err, func() error { return o.printTimelines(env, answers, err) }); failed != nil {
			return failed
		}
		for _, a := range answers {
			if len(a.Connections) > 0 {
				return nil
			}
		}
		return &ExitError{Code: 1}
	})
}

// jsonTimelines is the document of connections timeline with --format json.
type jsonTimelines struct {
	Connections []jsonTimeline       `json:"connections"`
	Brokers     []jsonTimelineBroker `json:"brokers"`
	Errors      []jsonError          `json:"errors"`
}

type jsonTimelineBroker struct {
	NodeID        int32   `json:"nodeId"`
	Matched       int64   `json:"matched"` // more than are listed where --limit has left some out
	CompleteSince *string `json:"completeSince"`
}

type jsonTimeline struct {
	NodeID           int32       `json:"nodeId"`
	ConnectionID     *string     `json:"connectionId"` // null of a refused socket
	Principal        *string     `json:"principal"`
	ClientAddress    string      `json:"clientAddress"`
	ClientPort       int32       `json:"clientPort"`
	ListenerName     string      `json:"listenerName"`
	SecurityProtocol string      `json:"securityProtocol"`
	SoftwareName     *string     `json:"softwareName"`
	SoftwareVersion  *string     `json:"softwareVersion"`
	ClientID         *string     `json:"clientId"`
	State            string      `json:"state"`
	Reason           *string     `json:"reason"`
	ClosedBy         *string     `json:"closedBy"`
	ClosedFor        *string     `json:"closedFor"` // who asked an operator's close
	Events           []jsonEvent `json:"events"`
}

type jsonEvent struct {
	Name      string  `json:"name"`
	At        *string `json:"at"`
	Micros    int64   `json:"micros"` // of a wait, a hold, or idleness
	Limit     *string `json:"limit"`
	Scope     *string `json:"scope"`
	CountedBy string  `json:"source"`
	Exactness string  `json:"exactness"`
	Detail    *string `json:"detail"`
}

func (o *timelineOptions) printTimelines(env Env, answers []*protocol.DescribeConnectionTimelineResponse, err error) error {
	if o.format == formatJSON {
		return printJSON(env.Stdout, jsonOfTimelines(answers, err))
	}
	var text strings.Builder
	for _, a := range answers {
		for i := range a.Connections {
			if text.Len() > 0 {
				text.WriteByte('\n')
			}
			writeTimeline(&text, a, &a.Connections[i])
		}
	}
	if _, failed := io.WriteString(env.Stdout, text.String()); failed != nil {
		return failed
	}
	for _, a := range answers {
		note := ""
		switch {
		case len(a.Connections) == 0:
			note = "knows no such connection"
			if a.CompleteSince != 0 {
				note += "; of those that ended it remembers all since " + since(a.CompleteSince)
			}
		case a.Matched > int64(len(a.Connections)):
			note = fmt.Sprintf("has %d such connections; the last %d are shown (--limit)", a.Matched, len(a.Connections))
		}
		if note == "" {
			continue
		}
		if _, failed := fmt.Fprintf(env.Stderr, "brokerlab: broker %d %s\n", a.NodeID, note); failed != nil {
			return failed
		}
	}
	return nil
}

func jsonOfTimelines(answers []*protocol.DescribeConnectionTimelineResponse, err error) jsonTimelines {
	doc := jsonTimelines{Connections: []jsonTimeline{}, Brokers: make([]jsonTimelineBroker, len(answers)), Errors: jsonErrors(err)}
	for i, a := range answers {
		doc.Brokers[i] = jsonTimelineBroker{a.NodeID, a.Matched, timestamp(a.CompleteSince)}
		for j := range a.Connections {
			c := &a.Connections[j]
			row := jsonTimeline{
				NodeID: a.NodeID, ConnectionID: orNull(c.ConnectionID), Principal: orNull(c.Principal), ClientAddress: c.ClientAddress,
				ClientPort: c.ClientPort, ListenerName: c.ListenerName, SecurityProtocol: c.SecurityProtocol,
				SoftwareName: orNull(c.SoftwareName), SoftwareVersion: orNull(c.SoftwareVersion), ClientID: c.ClientID,
				State: c.State, Reason: orNull(c.Reason), ClosedBy: orNull(c.ClosedBy), ClosedFor: orNull(c.ClosedFor),
				Events: make([]jsonEvent, len(c.Events)),
			}
			for k := range c.Events {
				e := &c.Events[k]
				row.Events[k] = jsonEvent{e.Name, instant(e.At), e.Micros, orNull(e.Limit), orNull(e.Scope), e.CountedBy, e.Exactness, orNull(e.Detail)}
			}
			doc.Connections = append(doc.Connections, row)
		}
	}
	return doc
}

// instant is timestamp to the microsecond.
func instant(micros int64) *string {
	if micros == 0 {
		return nil
	}
	return new(time.UnixMicro(micros).UTC().Format("2006-01-02T15:04:05.000000Z"))
}

// writeTimeline writes one connection: who it is, then a line for each thing that happened to it.
func writeTimeline(text *strings.Builder, a *protocol.DescribeConnectionTimelineResponse, c *protocol.DescribeConnectionTimelineResponseConnection) {
	line := func(s string) {
		for one := range strings.SplitSeq(s, "\n") {
			text.WriteString(cutLine(one) + "\n")
		}
	}
	client := &ended{DescribeClosedConnectionsResponseConnection: &protocol.DescribeClosedConnectionsResponseConnection{
		ClientAddress: c.ClientAddress, ClientPort: c.ClientPort,
	}}
	line(fmt.Sprintf("%s to %s (%s) of broker %d, %s, %s", clientOf(client), shown(c.ListenerName), shown(c.SecurityProtocol), a.NodeID, shown(c.Principal), shown(c.State)))
	clientID := unknown
	if c.ClientID != nil {
		clientID = shown(*c.ClientID)
	}
	if c.ConnectionID != "" {
		line("id " + shown(c.ConnectionID))
	}
	if c.SoftwareName != "" || c.ClientID != nil {
		line("software " + software(c.SoftwareName, c.SoftwareVersion) + ", client-id " + clientID)
	}
	if len(c.Events) == 0 {
		return
	}
	first, last := c.Events[0].At, c.Events[len(c.Events)-1].At
	open := c.ClosedBy == "" && a.Time > last
	if open {
		last = a.Time
	}
	line("from " + time.UnixMicro(first).UTC().Format("2006-01-02T15:04:05.000Z"))
	scale := &waterfall{first, last}
	before := first
	for i := range c.Events {
		e := &c.Events[i]
		line(scale.row(before, e.At, shown(e.CountedBy), shown(e.Name), happening(c, e, before)))
		before = e.At
	}
	if open {
		line(scale.row(before, last, protocol.CountedByBroker, "now", "idle "+micros(last-before)))
	}
}

// happening is what there is to say of an event beside when it was.
func happening(c *protocol.DescribeConnectionTimelineResponseConnection, e *protocol.DescribeConnectionTimelineResponseEvent, before int64) string {
	bound := ""
	if e.Exactness != protocol.ExactnessExact {
		bound = shown(e.Exactness) + ", "
	}
	switch e.Name {
	case protocol.EventAccepted:
		if before < e.At {
			return bound + micros(e.At-before) + " in the accept queue"
		}
	case protocol.EventWaitedRate, protocol.EventWaitedSlot:
		return bound + micros(e.Micros) + " for " + limitPhrase(e.Limit, e.Scope)
	case protocol.EventClosed:
		who := "the " + c.ClosedBy
		if c.ClosedFor != "" {
			who = c.ClosedFor
		}
		said := bound + "by " + shown(who) + ": " + shown(c.Reason)
		if e.Micros > 0 {
			said += ", held " + micros(e.Micros)
		}
		return said
	}
	if e.Limit != "" {
		return bound + limitPhrase(e.Limit, e.Scope)
	}
	return strings.TrimSuffix(bound, ", ")
}

// micros prints a number of microseconds in two units at most.
func micros(n int64) string {
	d := time.Duration(n) * time.Microsecond
	if d < time.Millisecond {
		return d.String()
	}
	return age(d)
}

// waterfall draws spans of time to scale, one below the other. The moments are microseconds.
type waterfall struct{ first, last int64 }

// The columns of a line; the rest is for what there is to say.
const (
	waterfallWidth = 20
	waterfallText  = 2 + 10 + 8 + 17 + waterfallWidth + 2
)

// row is a line with the span from one moment to another; what does not fit it stands below.
func (w *waterfall) row(from, to int64, source, event, said string) string {
	line := "  " + pad("+"+micros(max(to-w.first, 0)), 10) + pad(source, 8) + pad(event, 17) + pad(w.bar(from, to), waterfallWidth+2)
	folded := strings.Split(fold(said, tableWidth-waterfallText), "\n")
	return line + strings.Join(folded, "\n"+strings.Repeat(" ", waterfallText))
}

// bar is the span itself: at least a mark where it ends.
func (w *waterfall) bar(from, to int64) string {
	at := func(moment int64) int {
		if w.last <= w.first {
			return 0
		}
		share := float64(moment-w.first) / float64(w.last-w.first)
		return int(min(max(share, 0), 1) * waterfallWidth)
	}
	start, end := at(from), at(to)
	if end <= start {
		return strings.Repeat(" ", min(start, waterfallWidth-1)) + "▏"
	}
	return strings.Repeat(" ", start) + strings.Repeat("█", end-start)
}

// cutLine is a line that fits a terminal.
func cutLine(s string) string {
	s = strings.TrimRight(s, " ")
	if utf8.RuneCountInString(s) <= tableWidth {
		return s
	}
	return string([]rune(s)[:tableWidth-1]) + "…"
}
