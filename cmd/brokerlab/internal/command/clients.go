package command

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/configpush"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

func newClients(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "clients",
		Short: "What clients run with: the configurations that they push",
		Long: `What clients run with: the configurations that they push to their broker (KIP-1324), where client.config.policy.class.name
is store.

A configuration is what a client says of itself, and a push carries no id of its sender: a client is known by its principal,
address, client id, listener and software. Clients that have all of that in common and pushed different configurations are
ambiguous: all of them are shown, and which connection runs with which is not known.`,
		Example: `  brokerlab clients list --bootstrap-server localhost:9092
  brokerlab clients lint --bootstrap-server localhost:9092`,
		Args: cobra.NoArgs,
	}
	c.AddCommand(newClientsList(env), newClientsShow(env), newClientsDiff(env), newClientsLint(env))
	return c
}

// clientsOptions are the flags that all of brokerlab clients have.
type clientsOptions struct {
	bootstrapOptions

	principal string
	address   string
	clientID  string
	listener  string
	software  string
	ambiguous bool
	nodes     []int32
	format    format
}

func (o *clientsOptions) add(c *cobra.Command) {
	addBootstrap(c, &o.bootstrapOptions)
	f := c.Flags()
	f.StringVar(&o.principal, "principal", "", "only clients of this `principal` such as User:alice")
	f.StringVar(&o.address, "client-address", "", "only clients at this IP `address` or prefix such as 10.0.0.0/8")
	f.StringVar(&o.clientID, "client-id", "", "only clients of this client `id`")
	f.StringVar(&o.listener, "listener", "", "only clients of the listener of this `NAME`")
	f.StringVar(&o.software, "software", "", "only clients of this software `name` such as franz-go")
	f.BoolVar(&o.ambiguous, "ambiguous", false, "only clients that cannot be told apart")
	addNodes(c, &o.nodes)
	addFormat(c, &o.format)
}

// pusher is what was pushed by clients that look the same, and the broker that keeps it.
type pusher struct {
	node int32
	now  int64 // of that broker, when it answered
	*protocol.DescribeClientConfigsResponseClient
}

func (p *pusher) ambiguous() bool { return len(p.Configurations) > 1 }

// latest is the configuration that came last; a broker keeps one at least.
func (p *pusher) latest() *protocol.DescribeClientConfigsResponseConfiguration {
	if len(p.Configurations) == 0 {
		return &protocol.DescribeClientConfigsResponseConfiguration{}
	}
	return &p.Configurations[0]
}

// run asks for clients and hands them to show, sorted by node and id; show writes them whether or not some broker failed.
func (o *clientsOptions) run(c *cobra.Command, env Env, entries bool, show func(rows []pusher, asked error) error) error {
	if err := checkAddress(c, o.address); err != nil {
		return err
	}
	f := admin.ClientConfigsFilter{
		Principal: given(c, "principal", o.principal), Address: given(c, "client-address", o.address), ClientID: given(c, "client-id", o.clientID),
		Listener: given(c, "listener", o.listener), Software: given(c, "software", o.software),
		Ambiguous: o.ambiguous, Entries: entries, Nodes: o.nodes,
	}
	return o.withCluster(c.Context(), env, func(ctx context.Context, cl *admin.Client) error {
		answers, err := cl.DescribeClientConfigs(ctx, f)
		var rows []pusher
		for _, a := range answers {
			for i := range a.Clients {
				rows = append(rows, pusher{a.NodeID, a.Time, &a.Clients[i]})
			}
		}
		return printed(env, err, func() error { return show(rows, err) })
	})
}

// entriesOf is a configuration as package configpush has it.
func entriesOf(c *protocol.DescribeClientConfigsResponseConfiguration) []configpush.Entry {
	all := make([]configpush.Entry, len(c.Entries))
	for i, e := range c.Entries {
		all[i] = configpush.Entry{Key: e.Key, Value: e.Value, Type: e.Type, Default: e.Default, Redacted: e.Redacted}
	}
	return all
}
