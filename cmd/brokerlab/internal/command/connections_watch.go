package command

import (
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// watchRows is how many groups fit a terminal beside the shell's own lines, unless --limit says otherwise.
const watchRows = 20

func newConnectionsWatch(env Env) *cobra.Command {
	var o connectionsOptions
	var interval time.Duration
	var count int
	c := &cobra.Command{
		Use:   "watch --bootstrap-server host:port",
		Short: "Count the client connections again and again, with opens and closes a second",
		Long: `Count the client connections again and again, until interrupted or --count times, with how many opened and closed a
second since the time before. On a terminal the picture is refreshed in place and shows the fullest groups; elsewhere
each time is a line of key=value pairs, or with --format json a document on a line.

Connections that opened and closed between two times are counted too: brokers remember those that closed last. Where one
has forgotten some of them, or has no such request, numbers are lower bounds (≥).

A broker that does not answer is named on standard error when that begins, and when it answers again; one that hangs
holds a look up for some seconds. Filters are those of list. Needs DESCRIBE on the cluster. Exit status: 1 when a broker did not answer the
last time.`,
		Example: `  brokerlab connections watch --bootstrap-server localhost:9092 --count 3
  brokerlab connections watch --bootstrap-server localhost:9092 --group-by subnet --count 2
  brokerlab connections watch --bootstrap-server localhost:9092 --format json --count 1`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if interval <= 0 || count < 0 {
				return usage("--interval must be more than nothing, --count at least 0")
			}
			return o.runWatch(c, env, interval, count)
		},
	}
	addBootstrap(c, &o.bootstrapOptions)
	addListFilters(c, &o)
	addOwnFilters(c, &o, "")
	addGrouping(c, &o, groupListener)
	addOrder(c, &o.orderOptions, watchRows)
	c.Flags().DurationVar(&interval, "interval", time.Second, "`time` between two counts")
	c.Flags().IntVar(&count, "count", 0, "`times` to count; 0 until interrupted")
	addFormat(c, &o.format)
	return c
}

// tally follows the connections of brokers from one look to the next.
type tally struct {
	brokers map[int32]*seen
	at      time.Time // of the last look
}

// seen is what the last look at a broker showed.
type seen struct {
	open        map[string]bool // by connection id
	vanished    map[string]bool // gone from the list, and not yet told of as closed
	incarnation int64
	sequence    int64
	remembers   bool // the broker told of closed connections
}

// change is what happened between two looks.
type change struct {
	open, opened, closed int
	known                bool // there was a look before
	lower                bool // opened and closed may have been more
	elapsed              time.Duration
}

// after is what the brokers are asked for: only what closed since the last look.
func (t *tally) after() map[int32]int64 {
	all := map[int32]int64{}
	for node, s := range t.brokers {
		all[node] = s.sequence
	}
	return all
}

// look takes the lists of those brokers that answered, and what they told of closed connections.
func (t *tally) look(now time.Time, open []admin.ClientConnection, closed []*protocol.DescribeClosedConnectionsResponse) change {
	ch := change{open: len(open), known: !t.at.IsZero(), elapsed: now.Sub(t.at)}
	t.at = now
	current := map[int32]map[string]bool{}
	for i := range open {
		ids := current[open[i].NodeID]
		if ids == nil {
			ids = map[string]bool{}
			current[open[i].NodeID] = ids
		}
		ids[open[i].ConnectionID] = true
	}
	told := map[int32]*protocol.DescribeClosedConnectionsResponse{}
	for _, a := range closed {
		told[a.NodeID] = a
		if current[a.NodeID] == nil {
			current[a.NodeID] = map[string]bool{}
		}
	}
	for node, ids := range current {
		before := t.brokers[node]
		if before != nil {
			opened, ended, lower := before.until(ids, told[node])
			ch.opened, ch.closed, ch.lower = ch.opened+opened, ch.closed+ended, ch.lower || lower
		} else if ch.known {
			ch.lower = true // a broker that was not there before
		}
		t.brokers[node] = before.next(ids, told[node])
	}
	return ch
}

// until counts what happened to a broker's connections until ids are open and answer tells of those that closed.
func (s *seen) until(ids map[string]bool, answer *protocol.DescribeClosedConnectionsResponse) (opened, ended int, lower bool) {
	gone := map[string]bool{}
	if answer != nil {
		for i := range answer.Connections {
			if id := answer.Connections[i].ConnectionID; id != "" && !s.vanished[id] {
				gone[id] = true
			}
		}
		lower = answer.Incarnation != s.incarnation || answer.Sequence-s.sequence > int64(answer.Capacity)
	}
	for id := range s.open {
		if !ids[id] {
			gone[id] = true
		}
	}
	for id := range ids {
		if !s.open[id] {
			opened++
		}
	}
	for id := range gone {
		if !s.open[id] && !ids[id] {
			opened++
		}
	}
	return opened, len(gone), lower || answer == nil
}

// next is what is kept for the next look. s may be nil.
func (s *seen) next(ids map[string]bool, answer *protocol.DescribeClosedConnectionsResponse) *seen {
	n := &seen{open: ids, vanished: map[string]bool{}}
	if s != nil {
		for id := range s.open {
			if !ids[id] {
				n.vanished[id] = true
			}
		}
	}
	if answer == nil {
		return n
	}
	n.remembers, n.incarnation, n.sequence = true, answer.Incarnation, answer.Sequence
	for i := range answer.Connections { // told of: neither open any more nor to be told of again
		delete(n.open, answer.Connections[i].ConnectionID)
		delete(n.vanished, answer.Connections[i].ConnectionID)
	}
	return n
}

// rate prints a number of a second.
func (ch *change) rate(n int) string {
	if !ch.known {
		return unknown
	}
	text := strconv.FormatFloat(ch.perSecond(n), 'f', 1, 64)
	if ch.lower {
		return "≥" + text
	}
	return text
}

func (ch *change) perSecond(n int) float64 {
	const tenth = 10
	return math.Round(float64(n)/max(ch.elapsed.Seconds(), time.Millisecond.Seconds())*tenth) / tenth
}

func (o *connectionsOptions) runWatch(c *cobra.Command, env Env, interval time.Duration, count int) error {
	if err := o.validate(c); err != nil {
		return err
	}
	name, err := o.grouping()
	if err != nil {
		return usage(err.Error())
	}
	order, err := arrange(&o.orderOptions, groupColumns())
	if err != nil {
		return err
	}
	w := &watching{env: env, interval: interval, count: count}
	cl, err := o.open(env, w)
	if err != nil {
		return err
	}
	defer cl.kgo.Close()
	f, t := o.filter(c), &tally{brokers: map[int32]*seen{}}
	since := closedFilter(f)
	var open []admin.ClientConnection
	var closed []*protocol.DescribeClosedConnectionsResponse
	ask := func(ctx context.Context) (bool, error) {
		err := cl.call(ctx, func(ctx context.Context) (err error) {
			since.After = t.after()
			open, closed, err = openAndClosed(ctx, cl.admin, f, since)
			return err
		})
		return len(open) > 0 || len(closed) > 0, err
	}
	return w.run(c.Context(), ask, func(asked error) error {
		ch := t.look(time.Now(), open, closed)
		all, _ := groups(name, open, nil)
		total := len(all)
		return o.printChange(env, &ch, order(all), total, asked)
	})
}

// jsonChange is one line of watch with --format json.
type jsonChange struct {
	Time            time.Time        `json:"time"`
	Connections     int              `json:"connections"`
	Opened          *int             `json:"opened"` // since the line before; null on the first
	Closed          *int             `json:"closed"`
	OpenedPerSecond *float64         `json:"openedPerSecond"`
	ClosedPerSecond *float64         `json:"closedPerSecond"`
	Exactness       string           `json:"exactness"` // of what opened and closed: exact, lower bound or unavailable
	GroupBy         string           `json:"groupBy"`
	Groups          []jsonGroupCount `json:"groups"`
	Total           *int             `json:"total,omitempty"` // groups before --limit
	Errors          []jsonError      `json:"errors"`
}

type jsonGroupCount struct {
	Group       *string `json:"group"`
	Connections int     `json:"connections"`
}

func (o *connectionsOptions) printChange(env Env, ch *change, all []group, total int, asked error) error {
	at := time.Now().UTC()
	switch {
	case o.format == formatJSON:
		doc := jsonChange{
			Time: at, Connections: ch.open, Exactness: tallied{ch.known, ch.lower}.exactness(), GroupBy: o.groupBy,
			Groups: make([]jsonGroupCount, len(all)), Total: cutTotal(len(all), total), Errors: jsonErrors(asked),
		}
		if ch.known {
			doc.Opened, doc.Closed = &ch.opened, &ch.closed
			doc.OpenedPerSecond, doc.ClosedPerSecond = new(ch.perSecond(ch.opened)), new(ch.perSecond(ch.closed))
		}
		for i := range all {
			doc.Groups[i] = jsonGroupCount{orNull(all[i].name), all[i].connections}
		}
		return printJSONLine(env.Stdout, doc)
	case isTerminal(env.Stdout):
		return o.printPicture(env.Stdout, at, ch, all, total)
	}
	count := tallied{ch.known, ch.lower}
	_, err := fmt.Fprintf(env.Stdout, "time=%s connections=%d opened=%s closed=%s opened_per_s=%s closed_per_s=%s exactness=%q\n",
		at.Format(time.RFC3339), ch.open, count.number(ch.opened), count.number(ch.closed), ch.rate(ch.opened), ch.rate(ch.closed), count.exactness())
	return err
}

// printPicture draws what a terminal shows until the next look.
func (o *connectionsOptions) printPicture(w io.Writer, at time.Time, ch *change, all []group, total int) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s%s  %d connections  opened %s/s  closed %s/s\n\n",
		refresh, at.Format(time.RFC3339), ch.open, ch.rate(ch.opened), ch.rate(ch.closed))
	rows := [][]string{{strings.ToUpper(o.groupBy), "CONNECTIONS"}}
	for i := range all {
		rows = append(rows, []string{shown(all[i].name), strconv.Itoa(all[i].connections)})
	}
	if err := printTable(&text, rows, 0); err != nil {
		return err
	}
	if len(all) < total {
		fmt.Fprintf(&text, "… %d of %d groups are shown (--limit)\n", len(all), total)
	}
	_, err := io.WriteString(w, text.String())
	return err
}
