package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/brokerlab/brokerlab/broker/admin"
)

func newConnectionsClients(env Env) *cobra.Command {
	var o connectionsOptions
	c := &cobra.Command{
		Use:   "clients --bootstrap-server host:port",
		Short: "Hold how many connections each client has against how many one such client makes",
		Long: `Hold how many connections each client has to all brokers together against how many one client of its kind makes at most:
ACTUAL, BOUND, and EXCESS where there are more. The greatest excess comes first.

A client is what has principal, address, client id and software in common, so name clients apart by client.id: several that
look the same are one row, whose excess then is the others. A ROLE of consumer is known from the members of consumer groups.

The bound with N brokers is N, one to find the cluster (bootstrap), and for a consumer one to its coordinator, as clients of
Java and librdkafka (also confluent-kafka-*) make them; of franz-go 2 N in place of N, as records have connections of their
own. Other software gets the same bound as Java, with a ~.

Who is no member of a group is taken for a producer. Where groups cannot be asked (DESCRIBE on them), roles are dashes
and every client may have what a consumer may. A connection that replaces another, which the broker has not closed yet, counts.

Needs DESCRIBE on the cluster. Exit status: 0 when every broker answered, else 1.`,
		Example: `  brokerlab connections clients --bootstrap-server localhost:9092
  brokerlab connections clients --bootstrap-server localhost:9092 --principal User:alice --limit 20
  brokerlab connections clients --bootstrap-server localhost:9092 --sort actual:desc --format json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.runClients(c, env) },
	}
	addBootstrap(c, &o.bootstrapOptions)
	addListFilters(c, &o)
	addOwnFilters(c, &o, "")
	addOrder(c, &o.orderOptions, 0)
	addFormat(c, &o.format)
	return c
}

// The roles of clients.
const (
	roleConsumer = "consumer"
	roleProducer = "producer"
)

// clientName is what the connections of one client have in common.
type clientName struct {
	principal, address, id, software string
}

// clientRow is a client, and how many connections it has and should have.
type clientRow struct {
	clientName

	role    string // "" where groups could not be asked
	actual  int
	byNode  map[int32]int
	bound   int
	assumed bool // the bound is that of another software
}

func (r *clientRow) excess() int { return max(0, r.actual-r.bound) }

// boundOf is how many connections one client makes at most to so many brokers, and whether its software is known.
func boundOf(software, role string, brokers int) (bound int, assumed bool) {
	name := strings.ToLower(software)
	bound = brokers + 1
	switch {
	case name == "kgo" || strings.Contains(name, "franz"):
		bound = 2*brokers + 1
	case strings.Contains(name, "java"), strings.Contains(name, "librdkafka"), strings.HasPrefix(name, "confluent-kafka"):
	default:
		assumed = true
	}
	if role != roleProducer {
		bound++
	}
	return bound, assumed
}

// clientRows counts connections by client, the greatest excess first. consumers are nil where groups could not be asked.
func clientRows(conns []admin.Connection, brokers int, consumers map[[2]string]bool) []clientRow {
	found := map[clientName]*clientRow{}
	for i := range conns {
		c := &conns[i]
		name := clientName{c.Principal, c.ClientAddress, "", c.SoftwareName}
		if c.ClientID != nil {
			name.id = *c.ClientID
		}
		r := found[name]
		if r == nil {
			r = &clientRow{clientName: name, byNode: map[int32]int{}}
			found[name] = r
		}
		r.actual++
		r.byNode[c.NodeID]++
	}
	var rows []clientRow
	for name, r := range found {
		switch {
		case consumers == nil:
		case consumers[[2]string{name.id, name.address}]:
			r.role = roleConsumer
		default:
			r.role = roleProducer
		}
		r.bound, r.assumed = boundOf(name.software, r.role, brokers)
		rows = append(rows, *r)
	}
	slices.SortFunc(rows, func(a, b clientRow) int {
		return cmp.Or(cmp.Compare(b.excess(), a.excess()), cmp.Compare(b.actual, a.actual), cmp.Compare(a.id, b.id),
			cmp.Compare(a.principal, b.principal), cmp.Compare(a.address, b.address), cmp.Compare(a.software, b.software))
	})
	return rows
}

func clientColumns() []column[clientRow] {
	return []column[clientRow]{
		by("client-id", func(r *clientRow) string { return r.id }),
		by("principal", func(r *clientRow) string { return r.principal }),
		byAddress("address", func(r *clientRow) string { return r.address }),
		by("software", func(r *clientRow) string { return r.software }),
		by("role", func(r *clientRow) string { return r.role }),
		by("actual", func(r *clientRow) int { return r.actual }),
		by("bound", func(r *clientRow) int { return r.bound }),
		by("excess", (*clientRow).excess),
	}
}

func (o *connectionsOptions) runClients(c *cobra.Command, env Env) error {
	o.wide = true // every filter is one of this command
	if err := o.validate(c); err != nil {
		return err
	}
	order, err := arrange(&o.orderOptions, clientColumns())
	if err != nil {
		return err
	}
	cl, err := o.open(env)
	if err != nil {
		return err
	}
	defer cl.kgo.Close()
	f := o.filter(c)
	f.PageSize = widePage
	var conns []admin.Connection
	brokers := 0
	err = cl.call(c.Context(), func(ctx context.Context) (err error) {
		conns, err = cl.admin.DescribeConnections(ctx, f)
		return err
	})
	if nobody(err) {
		return err
	}
	conns = slices.DeleteFunc(conns, func(c admin.Connection) bool { return cl.own.has(c.ClientPort) && c.SoftwareName == softwareName })
	var consumers map[[2]string]bool
	groupsErr := cl.call(c.Context(), func(ctx context.Context) (failed error) {
		adm := kadm.NewClient(cl.kgo)
		all, failed := adm.ListBrokers(ctx) // a client connects to all of them, whichever are asked here
		if failed != nil {
			return failed
		}
		brokers = len(all)
		consumers, failed = membersOf(ctx, adm)
		return failed
	})
	if brokers == 0 {
		return errors.Join(groupsErr, err)
	}
	rows := clientRows(conns, brokers, consumers)
	sum := sumOf(rows, brokers)
	rows = order(rows)
	return printed(env, err, func() error {
		if groupsErr != nil {
			if _, failed := fmt.Fprintf(env.Stderr, "brokerlab: who consumes is not known: %v\n", groupsErr); failed != nil {
				return failed
			}
		}
		return o.printClients(env, rows, sum, err)
	})
}

// membersOf are the members of all consumer groups, by client id and address.
func membersOf(ctx context.Context, adm *kadm.Client) (map[[2]string]bool, error) {
	listed, err := adm.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	found := map[[2]string]bool{}
	add := func(id, host string) { found[[2]string{id, strings.TrimPrefix(host, "/")}] = true }
	var classic, consumer []string
	for name, g := range listed {
		if strings.EqualFold(g.GroupType, "consumer") {
			consumer = append(consumer, name)
		} else {
			classic = append(classic, name)
		}
	}
	var problems []error
	if len(classic) > 0 {
		all, err := adm.DescribeGroups(ctx, classic...)
		problems = append(problems, err)
		for name := range all {
			members := all[name].Members
			for i := range members {
				add(members[i].ClientID, members[i].ClientHost)
			}
		}
	}
	if len(consumer) > 0 {
		all, err := adm.DescribeConsumerGroups(ctx, consumer...)
		problems = append(problems, err)
		for name := range all {
			members := all[name].Members
			for i := range members {
				add(members[i].ClientID, members[i].ClientHost)
			}
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return found, nil
}

// jsonPerClient is the document of connections clients with --format json.
type jsonPerClient struct {
	Brokers int               `json:"brokers"`
	Clients []jsonClientCount `json:"clients"`
	Sum     jsonClientSum     `json:"sum"` // of all clients, before --limit
	Errors  []jsonError       `json:"errors"`
}

type jsonClientSum struct {
	Clients int `json:"clients"`
	Actual  int `json:"actual"`
	Bound   int `json:"bound"`
	Excess  int `json:"excess"`
}

type jsonClientCount struct {
	ClientID      *string       `json:"clientId"`
	Principal     *string       `json:"principal"`
	ClientAddress string        `json:"clientAddress"`
	SoftwareName  *string       `json:"softwareName"`
	Role          *string       `json:"role"` // null: not known
	Actual        int           `json:"actual"`
	ByNode        map[int32]int `json:"byNode"`
	Bound         int           `json:"bound"`
	Assumed       bool          `json:"assumed"` // the bound is that of Java's clients, for want of a better
	Excess        int           `json:"excess"`
}

func sumOf(rows []clientRow, brokers int) jsonPerClient {
	sum := jsonPerClient{Brokers: brokers, Sum: jsonClientSum{Clients: len(rows)}}
	for i := range rows {
		r := &rows[i]
		sum.Sum.Actual, sum.Sum.Bound, sum.Sum.Excess = sum.Sum.Actual+r.actual, sum.Sum.Bound+r.bound, sum.Sum.Excess+r.excess()
	}
	return sum
}

func (o *connectionsOptions) printClients(env Env, rows []clientRow, doc jsonPerClient, asked error) error {
	if o.format == formatJSON {
		doc.Clients, doc.Errors = make([]jsonClientCount, len(rows)), jsonErrors(asked)
		for i := range rows {
			r := &rows[i]
			doc.Clients[i] = jsonClientCount{
				ClientID: orNull(r.id), Principal: orNull(r.principal), ClientAddress: r.address, SoftwareName: orNull(r.software), Role: orNull(r.role),
				Actual: r.actual, ByNode: r.byNode, Bound: r.bound, Assumed: r.assumed, Excess: r.excess(),
			}
		}
		return printJSON(env.Stdout, doc)
	}
	table := [][]string{{"CLIENT-ID", "PRINCIPAL", "ADDRESS", "SOFTWARE", "ROLE", "ACTUAL", "BY NODE", "BOUND", "EXCESS"}}
	for i := range rows {
		r := &rows[i]
		bound := strconv.Itoa(r.bound)
		if r.assumed {
			bound = "~" + bound
		}
		var nodes []string
		for _, node := range slices.Sorted(maps.Keys(r.byNode)) {
			nodes = append(nodes, fmt.Sprintf("%d:%d", node, r.byNode[node]))
		}
		table = append(table, []string{
			shown(r.id), shown(r.principal), shown(r.address), shown(r.software), cmp.Or(r.role, unknown),
			strconv.Itoa(r.actual), strings.Join(nodes, " "), bound, strconv.Itoa(r.excess()),
		})
	}
	const id, principal, address, name, nodes = 0, 1, 2, 3, 6
	if err := printTable(env.Stdout, table, id, principal, address, name, nodes); err != nil {
		return err
	}
	s := doc.Sum
	_, err := fmt.Fprintf(env.Stdout, "%s on %s: %d actual, %d expected at most, %d in excess\n",
		plural(s.Clients, "client"), plural(doc.Brokers, "broker"), s.Actual, s.Bound, s.Excess)
	if err != nil {
		return err
	}
	return noteCut(env, len(rows), s.Clients, "clients")
}
