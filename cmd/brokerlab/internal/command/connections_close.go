package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// closeOptions are the flags of brokerlab connections close.
type closeOptions struct {
	connectionsOptions

	ids   []string
	all   bool
	yes   bool
	limit int32
}

func newConnectionsClose(env Env) *cobra.Command {
	var o closeOptions
	c := &cobra.Command{
		Use:   "close --bootstrap-server host:port (FILTER… | --id ID | --all)",
		Short: "Close connections, so that others get their slots",
		Long: `Show the connections that match, and with --yes close them: exactly those that are shown. Their slots are free when the
command ends, so that who waits for one is admitted. What a client does then is its own affair: most connect again.

Filters are those of list, and all that are given must match. With --limit only so many are closed, those that have been
idle for longest. The connections of this command itself are left, unless one is named by --id. Without a filter nothing is
closed, unless --all says that every connection is meant.

The broker's log says who has closed what, and connections list --closed shows them with the reason killed.

Needs ALTER on the cluster, also without --yes. Exit status: 0 when what is to be closed is shown, or closed; 1 when a broker
did not answer, no broker has a connection of an --id, or one is still open; 2 when there is neither filter nor --all.`,
		Example: `  brokerlab connections close --bootstrap-server localhost:9092 --client-address 10.0.0.0/8
  brokerlab connections close --bootstrap-server localhost:9092 --principal User:alice --yes
  brokerlab connections close --bootstrap-server localhost:9092 --listener SSL --limit 10 --yes
  brokerlab connections close --bootstrap-server localhost:9092 --all --format json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runConnectionsClose(c, env, &o) },
	}
	addBootstrap(c, &o.bootstrapOptions)
	addListFilters(c, &o.connectionsOptions)
	f := c.Flags()
	f.Lookup("client-address").Usage = "only connections from this IP `address` or prefix such as 10.0.0.0/8"
	f.StringVar(&o.protocol, "protocol", "", "only connections of this security `protocol`")
	f.StringVar(&o.software, "software", "", "only clients of this software `name`")
	f.StringSliceVar(&o.ids, "id", nil, "only the connection of this `id`, as lists show it; may be repeated")
	f.Lookup("id").DefValue = "" // any
	addNodes(c, &o.nodes)
	f.Int32Var(&o.limit, "limit", 0, "close only so `many`, those that have been idle for longest; 0 for all")
	f.BoolVar(&o.all, "all", false, "close every connection that the filters leave, also without any filter")
	f.BoolVar(&o.yes, "yes", false, "close them; without it they are shown and left")
	addFormat(c, &o.format)
	return c
}

// doomed is a connection that is to be closed, and the broker that has it.
type doomed struct {
	node int32
	left bool // it was gone before it could be closed
	*protocol.CloseConnectionsResponseConnection
}

// closeResult is what has become of them.
type closeResult struct {
	rows     []doomed
	notFound []string // ids of the command line that no broker has
	pending  int64    // told to close and still open
}

func runConnectionsClose(c *cobra.Command, env Env, o *closeOptions) error {
	o.wide = true // every filter is one of this command
	if err := o.validate(c); err != nil {
		return err
	}
	f := o.closeFilter(c)
	switch {
	case o.limit < 0:
		return usage("--limit: must be at least 0")
	case f.Principal == nil && f.Address == nil && f.Listener == nil && f.Protocol == nil && f.Software == nil && len(f.IDs) == 0 && !o.all:
		return usage("which connections: a filter, --id, or --all for every one of them (see brokerlab connections close --help)")
	}
	cl, err := o.open(env)
	if err != nil {
		return err
	}
	defer cl.kgo.Close()
	var result closeResult
	err = cl.call(c.Context(), func(ctx context.Context) error { return result.find(ctx, cl, f) })
	if nobody(err) {
		return err
	}
	asked := []error{err}
	if o.yes {
		asked = append(asked, result.close(c.Context(), env, cl))
	}
	err = errors.Join(flatten(asked)...)
	if failed := o.printClosing(env, &result, err); failed != nil {
		return failed
	}
	if failed := brokerErrors(env, err); failed != nil {
		return failed
	}
	if len(result.notFound) > 0 || result.pending > 0 {
		return &ExitError{Code: 1}
	}
	return nil
}

// closeFilter is what the command line asks for, as a question.
func (o *closeOptions) closeFilter(c *cobra.Command) admin.CloseFilter {
	f := o.filter(c)
	return admin.CloseFilter{
		Principal: f.Principal, Address: f.Address, Listener: f.Listener, Protocol: f.Protocol, Software: f.Software, Nodes: f.Nodes,
		IDs: o.ids, All: o.all, Most: o.limit, DryRun: true,
	}
}

// flatten takes joined errors apart, so that they can be joined anew.
func flatten(all []error) (flat []error) {
	for _, err := range all {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			flat = append(flat, joined.Unwrap()...)
		} else if err != nil {
			flat = append(flat, err)
		}
	}
	return flat
}

// find asks which connections there are to close: those of f but for cl's own, the longest idle first.
func (r *closeResult) find(ctx context.Context, cl *cluster, f admin.CloseFilter) error {
	most := int(f.Most)
	if most > 0 {
		f.Most = min(f.Most, math.MaxInt32-ownAtMost) + ownAtMost // for its own are left out afterwards
	}
	answers, err := cl.admin.CloseConnections(ctx, f)
	missing := map[string]bool{}
	for _, id := range f.IDs {
		missing[id] = true
	}
	for _, a := range answers {
		for i := range a.Connections {
			row := &a.Connections[i]
			delete(missing, row.ConnectionID)
			if len(f.IDs) == 0 && cl.own.has(row.ClientPort) && row.SoftwareName == softwareName {
				continue
			}
			r.rows = append(r.rows, doomed{node: a.NodeID, CloseConnectionsResponseConnection: row})
		}
	}
	for _, id := range f.IDs {
		if missing[id] {
			delete(missing, id)
			r.notFound = append(r.notFound, id)
		}
	}
	slices.SortStableFunc(r.rows, func(a, b doomed) int { return cmp.Compare(b.IdleMillis, a.IdleMillis) })
	if most > 0 && len(r.rows) > most {
		r.rows = r.rows[:most]
	}
	return err
}

// closeAtOnce is how many connections one request names: their ids take a few hundred kilobytes then.
const closeAtOnce = 5_000

// close closes the connections of r by their ids, those of all brokers at the same time, in the order in which they are shown.
func (r *closeResult) close(ctx context.Context, env Env, cl *cluster) error {
	p := newProgress(env.Stderr)
	defer p.stop()
	byNode := map[int32][]*doomed{}
	for i := range r.rows {
		byNode[r.rows[i].node] = append(byNode[r.rows[i].node], &r.rows[i])
	}
	var (
		all  sync.WaitGroup
		mu   sync.Mutex // guards what follows
		done int
		errs []error
	)
	for node, rows := range byNode {
		all.Go(func() {
			for part := range slices.Chunk(rows, closeAtOnce) {
				pending, err := closePart(ctx, cl, node, part)
				mu.Lock()
				r.pending += pending
				errs = append(errs, err)
				done += len(part)
				p.set(fmt.Sprintf("closed %d of %d connections", done, len(r.rows)))
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(flatten(errs)...)
}

// closePart closes some connections of one broker and tells how many are told to close, and still open.
func closePart(ctx context.Context, cl *cluster, node int32, part []*doomed) (pending int64, err error) {
	ids := make([]string, len(part))
	for i, d := range part {
		ids[i], d.left = d.ConnectionID, true
	}
	var answers []*protocol.CloseConnectionsResponse
	err = cl.call(ctx, func(ctx context.Context) (err error) {
		answers, err = cl.admin.CloseConnections(ctx, admin.CloseFilter{IDs: ids, Nodes: []int32{node}})
		return err
	})
	closed := map[string]bool{}
	for _, a := range answers {
		pending += a.Pending
		for i := range a.Connections {
			closed[a.Connections[i].ConnectionID] = true
			if cl.own.has(a.Connections[i].ClientPort) && a.Pending > 0 {
				pending-- // it is ours, and ends with this command
			}
		}
	}
	for _, d := range part {
		d.left = !closed[d.ConnectionID]
	}
	return pending, err
}

// jsonClosing is the document of connections close with --format json.
type jsonClosing struct {
	Closed      bool         `json:"closed"` // whether --yes was given
	Connections []jsonDoomed `json:"connections"`
	NotFound    []string     `json:"notFound"` // ids that no broker has
	StillOpen   int64        `json:"stillOpen"`
	Errors      []jsonError  `json:"errors"`
}

type jsonDoomed struct {
	jsonConnection

	ClientID   *string `json:"clientId"`
	IdleMillis int64   `json:"idleMs"`
	Outcome    string  `json:"outcome"` // "closed", "gone before", or "would be closed"
}

func (d *doomed) outcome(yes bool) string {
	switch {
	case !yes:
		return "would be closed"
	case d.left:
		return "gone before"
	}
	return "closed"
}

func (o *closeOptions) printClosing(env Env, r *closeResult, err error) error {
	if o.format == formatJSON {
		doc := jsonClosing{
			Closed: o.yes, Connections: make([]jsonDoomed, len(r.rows)), NotFound: append([]string{}, r.notFound...), StillOpen: r.pending,
			Errors: jsonErrors(err),
		}
		for i := range r.rows {
			d := &r.rows[i]
			listed := admin.ClientConnection{
				NodeID: d.node,
				ListClientConnectionsResponseConnection: protocol.ListClientConnectionsResponseConnection{
					ConnectionID: d.ConnectionID, Principal: d.Principal, PrincipalType: d.PrincipalType, ClientAddress: d.ClientAddress,
					ClientPort: d.ClientPort, ListenerName: d.ListenerName, SecurityProtocol: d.SecurityProtocol,
					SoftwareName: d.SoftwareName, SoftwareVersion: d.SoftwareVersion, ConnectedSince: d.ConnectedSince,
				},
			}
			doc.Connections[i] = jsonDoomed{jsonConnection: jsonOf(&listed), ClientID: d.ClientID, IdleMillis: d.IdleMillis, Outcome: d.outcome(o.yes)}
		}
		return printJSON(env.Stdout, doc)
	}
	rows := [][]string{{"NODE", "CLIENT", "PRINCIPAL", "LISTENER", "SOFTWARE", "IDLE", "OUTCOME"}}
	closed := 0
	for i := range r.rows {
		d := &r.rows[i]
		if !d.left {
			closed++
		}
		client := &ended{DescribeClosedConnectionsResponseConnection: &protocol.DescribeClosedConnectionsResponseConnection{ClientAddress: d.ClientAddress, ClientPort: d.ClientPort}}
		rows = append(rows, []string{
			strconv.Itoa(int(d.node)), clientOf(client), shown(d.Principal), shown(d.ListenerName), software(d.SoftwareName, d.SoftwareVersion),
			age(time.Duration(d.IdleMillis) * time.Millisecond), d.outcome(o.yes),
		})
	}
	if err := printTable(env.Stdout, rows, 1, 2, 3, 4); err != nil {
		return err
	}
	return o.noteClosing(env, r, closed)
}

// noteClosing says on standard error what the table comes to.
func (o *closeOptions) noteClosing(env Env, r *closeResult, closed int) error {
	notes := []string{plural(len(r.rows), "connection") + " would be closed: --yes closes them"}
	if o.yes {
		notes[0] = plural(closed, "connection") + " closed"
	}
	if len(r.rows) == 0 {
		notes[0] = "no connection matches"
	}
	for _, id := range r.notFound {
		notes = append(notes, "no broker has an open connection "+shown(id))
	}
	if r.pending > 0 {
		notes = append(notes, plural(int(r.pending), "connection")+" told to close, and still open")
	}
	for _, note := range notes {
		if _, err := fmt.Fprintf(env.Stderr, "brokerlab: %s\n", note); err != nil {
			return err
		}
	}
	return nil
}

// ownAtMost is how many connections one client has to a broker: one that found the cluster, and one that asks.
const ownAtMost = 3

// ownConnections notes the ports that a client's connections are from. Safe for concurrent use.
type ownConnections struct {
	mu    sync.Mutex // guards ports
	ports map[int32]bool
}

var _ kgo.HookBrokerConnect = (*ownConnections)(nil)

// OnBrokerConnect is called by kgo.
func (o *ownConnections) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, conn net.Conn, err error) {
	if err != nil {
		return
	}
	if addr, ok := conn.LocalAddr().(*net.TCPAddr); ok {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.ports[int32(addr.Port)] = true
	}
}

func (o *ownConnections) has(port int32) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ports[port]
}
