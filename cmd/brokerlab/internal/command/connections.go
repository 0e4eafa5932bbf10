package command

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/admin"
)

// connectionsOptions are the flags of brokerlab connections list.
type connectionsOptions struct {
	bootstrapOptions
	orderOptions

	principal     string
	clientAddress string
	listener      string
	protocol      string
	software      string
	nodes         []int32
	wide          bool
	closed        bool
	reason        string // with closed
	groupBy       string
	subnetPrefix  string
	format        format
	script        bool // the table is to be the KIP's, whatever brokers there are
}

func newConnections(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "connections",
		Short: "Who is connected to a cluster right now",
		Long: `Who is connected to a cluster right now: a list, once or again and again, how one connection came and goes, who has more or
fewer than expected, and an end to some. Every broker of the cluster is asked.`,
		Example: `  brokerlab connections list --bootstrap-server localhost:9092
  brokerlab connections list --bootstrap-server localhost:9092 --group-by principal`,
		Args: cobra.NoArgs,
	}
	c.AddCommand(newConnectionsList(env), newConnectionsWatch(env), newConnectionsTimeline(env), newConnectionsClose(env),
		newConnectionsClients(env))
	return c
}

func newConnectionsList(env Env) *cobra.Command {
	var o connectionsOptions
	c := &cobra.Command{
		Use:   "list --bootstrap-server host:port",
		Short: "List the client connections of every broker",
		Long: `List the connections that every broker of a cluster has open, those of half-finished TLS handshakes and SASL exchanges
and this command's own included.

The list is KIP-1329's: any broker that has its request ListClientConnections answers. Filters are applied by the
brokers, and all that are given must match; those on protocol, software and a prefix of addresses are brokerlab's own
and need --wide, --closed or --group-by. A "-" stands for what a broker does not know (yet). With several brokers a column
NODE comes first. brokerlab connections clients holds how many connections each client has against how many are expected.

With --wide the list is brokerlab's own and comes with everything that the broker and the kernel know of each
connection, every fact under the name of its source: broker, tls, sasl or kernel.

With --group-by connections are counted by what they have in common, the fullest group first, with how many opened and
closed in the last minute and how long those that closed had lasted.

With --closed the list is of the connections that ended last, the latest first, each with its reason: a broker remembers
4,096. Connections that were refused are among them.

--sort takes the names of the table's columns in lower case; with --wide also client-id, state, idle, in, out, rtt and
certificate-until, with --closed also closed-at, lasted, reason, in and out, and with --group-by group, connections,
opened, closed and lifetime.

Needs DESCRIBE on the cluster. Exit status: 0 when every broker answered, else 1; the connections of those that did are
printed, and an error of each that did not goes to standard error.`,
		Example: `  brokerlab connections list --bootstrap-server localhost:9092
  brokerlab connections list --bootstrap-server localhost:9092 --principal User:alice
  brokerlab connections list --bootstrap-server localhost:9092 --wide --client-address 127.0.0.0/8
  brokerlab connections list --bootstrap-server localhost:9092 --sort port:desc --limit 10
  brokerlab connections list --bootstrap-server localhost:9092 --group-by subnet
  brokerlab connections list --bootstrap-server localhost:9092 --closed --limit 20
  brokerlab connections list --bootstrap-server localhost:9092 --format json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runConnectionsList(c, env, &o) },
	}
	addBootstrap(c, &o.bootstrapOptions)
	addListFilters(c, &o)
	addOwnFilters(c, &o, " (with --wide, --closed or --group-by)")
	addOrder(c, &o.orderOptions, 0)
	addGrouping(c, &o, "")
	f := c.Flags()
	f.BoolVar(&o.wide, "wide", false, "show all that is known of each connection, with its source")
	f.BoolVar(&o.closed, "closed", false, "list the connections that ended last, with the reason")
	f.StringVar(&o.reason, "reason", "", "only connections that ended for this `reason`, such as client_reset (with --closed)")
	addFormat(c, &o.format)
	return c
}

// addListFilters gives c the filters of KIP-1329.
func addListFilters(c *cobra.Command, o *connectionsOptions) {
	f := c.Flags()
	f.StringVar(&o.principal, "principal", "", "only connections of this `Type:name`, such as User:alice")
	f.StringVar(&o.clientAddress, "client-address", "", "only connections from this IP `address`")
	f.StringVar(&o.listener, "listener", "", "only connections to the listener of this `NAME`")
}

// addOwnFilters gives c the filters of brokerlab's own lists, with a note on when they can be used, and which broker to ask.
func addOwnFilters(c *cobra.Command, o *connectionsOptions, note string) {
	f := c.Flags()
	f.Lookup("client-address").Usage = "only connections from this IP `address` or prefix such as 10.0.0.0/8"
	f.StringVar(&o.protocol, "protocol", "", "only connections of this security `protocol`"+note)
	f.StringVar(&o.software, "software", "", "only clients of this software `name`"+note)
	addNodes(c, &o.nodes)
	f.Int16Var(&o.listKey, "api-key", 0, "the API `key` of ListClientConnections on brokers that moved it (list.client.connections.api.key)")
}

// widePage is how many connections a page of --wide asks for: each page costs the broker a look at every socket.
const widePage = 10_000

func runConnectionsList(c *cobra.Command, env Env, o *connectionsOptions) error {
	if err := o.validate(c); err != nil {
		return err
	}
	switch {
	case o.closed:
		return o.runClosed(c, env)
	case o.groupBy != "":
		return o.runGroups(c, env)
	case o.wide:
		return o.runWide(c, env)
	}
	order, err := arrange(&o.orderOptions, listColumns(func(r *admin.ClientConnection) admin.ClientConnection { return *r }))
	if err != nil {
		return err
	}
	f := o.filter(c)
	return o.withCluster(c.Context(), env, func(ctx context.Context, cl *admin.Client) error {
		rows, err := openConnections(ctx, cl, f)
		total := len(rows)
		rows = order(rows)
		return printed(env, err, func() error { return o.printList(env, rows, total, err) })
	})
}

func (o *connectionsOptions) runWide(c *cobra.Command, env Env) error {
	order, err := arrange(&o.orderOptions, wideColumns())
	if err != nil {
		return err
	}
	f := o.filter(c)
	f.Kernel, f.PageSize = true, widePage
	return o.withCluster(c.Context(), env, func(ctx context.Context, cl *admin.Client) error {
		rows, err := cl.DescribeConnections(ctx, f)
		total := len(rows)
		rows = order(rows)
		links := linkConfigs(ctx, cl, f, err)
		return printed(env, err, func() error { return o.printWide(env, rows, links, total, err) })
	})
}

// filter is what the command line asks for; what it does not have is nil.
func (o *connectionsOptions) filter(c *cobra.Command) admin.DescribeFilter {
	return admin.DescribeFilter{
		Principal: given(c, "principal", o.principal),
		Address:   given(c, "client-address", o.clientAddress),
		Listener:  given(c, "listener", o.listener),
		Protocol:  given(c, "protocol", o.protocol),
		Software:  given(c, "software", o.software),
		Nodes:     o.nodes,
	}
}

// validate refuses filters that no connection can match by their form, and what only --wide can do.
func (o *connectionsOptions) validate(c *cobra.Command) error {
	var problems []error
	if text := o.clientAddress; c.Flags().Changed("client-address") && text != "" {
		_, address := netip.ParseAddr(text)
		_, prefix := netip.ParsePrefix(text)
		if address != nil && prefix != nil {
			problems = append(problems, fmt.Errorf("--client-address: %q is not an IP address", text))
		}
	}
	if o.principal != "" && !strings.Contains(o.principal, ":") {
		problems = append(problems, fmt.Errorf("--principal: %q has no type: did you mean User:%s?", o.principal, o.principal))
	}
	protocols := []string{"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"}
	if o.protocol != "" && !slices.Contains(protocols, strings.ToUpper(o.protocol)) {
		problems = append(problems, fmt.Errorf("--protocol: %q is none of %s", o.protocol, strings.Join(protocols, ", ")))
	}
	if o.closed && o.groupBy != "" {
		problems = append(problems, errors.New("--closed and --group-by are two lists: ask for one"))
	}
	if o.reason != "" && !o.closed {
		problems = append(problems, errors.New("--reason needs --closed: an open connection has none"))
	}
	if o.wide || o.closed || o.groupBy != "" {
		return errors.Join(problems...)
	}
	for _, name := range []string{"protocol", "software"} {
		if c.Flags().Changed(name) {
			problems = append(problems, errors.New("--"+name+" needs --wide: the request of KIP-1329 has no such filter"))
		}
	}
	if strings.Contains(o.clientAddress, "/") {
		problems = append(problems, errors.New("--client-address with a prefix needs --wide: the request of KIP-1329 takes one address"))
	}
	return errors.Join(problems...)
}

// given is a flag's value, or nil when the command line does not have it: an empty filter is a filter.
func given(c *cobra.Command, name, value string) *string {
	if !c.Flags().Changed(name) {
		return nil
	}
	return &value
}
