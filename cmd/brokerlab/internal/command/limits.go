package command

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/admin"
)

func newLimits(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "limits",
		Short: "How many connections there may be, and who waits",
		Long: `How many connections there may be, how many there are, and who waits for one.

Limits are set as Kafka's: in server.properties, by configs alter or kafka-configs.sh while brokers run, and for the rate of
an address by client quotas.`,
		Example: `  brokerlab limits show --bootstrap-server localhost:9092`,
		Args:    cobra.NoArgs,
	}
	c.AddCommand(newLimitsShow(env), newLimitsWatch(env))
	for _, add := range limitsOfSystem() {
		c.AddCommand(add(env))
	}
	return c
}

// limitsOptions are the flags of brokerlab limits show and watch.
type limitsOptions struct {
	bootstrapOptions

	listener  string
	address   string
	addresses int32
	nodes     []int32
	format    format
}

func newLimitsShow(env Env) *cobra.Command {
	var o limitsOptions
	c := &cobra.Command{
		Use:   "show --bootstrap-server host:port",
		Short: "Show each limit, who set it, how far it is used, and what the next connection meets",
		Long: `Show each limit on connections that the brokers of a cluster have: its value, how much of it is in use, what is left, and
where it was set, in the words of Kafka's DescribeConfigs: dynamic broker, dynamic default, static, default; client quota
for the rate of an address. "broker's" marks a value that a listener has from the broker, as it has none of its own: the
base value of max.connections also caps the inter-broker listener, which the broker's own limits do not hold.

Then who is in front of each listener, in the order in which a client passes: the kernel's accept queue, the one socket that
the acceptor holds until there is a slot or a rate allows it, those held for the rate of their address and closed then,
those admitted that wait for their network thread. BLOCKED is the share of the last minute in which the acceptor waited; as
in Kafka a wait is added when it ends.

NEXT CONNECTION is what a client meets that comes now from an address without connections: admitted, waits for a slot
(until one closes), waits for a rate, closed at once, or held, then closed. Addresses are listed the busiest first, with
what their next connection meets.

Numbers are the broker's own and exact, accept queues the kernel's. What could not be counted is a dash, with the reason on
standard error.

Needs DESCRIBE on the cluster. Exit status: 0 when every broker answered, else 1; what the others said is printed, and an
error of each that did not goes to standard error.`,
		Example: `  brokerlab limits show --bootstrap-server localhost:9092
  brokerlab limits show --bootstrap-server localhost:9092 --listener SSL --addresses 3
  brokerlab limits show --bootstrap-server localhost:9092 --client-address 10.0.0.0/8
  brokerlab limits show --bootstrap-server localhost:9092 --format json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f, err := o.filter(c)
			if err != nil {
				return err
			}
			return o.withCluster(c.Context(), env, func(ctx context.Context, cl *admin.Client) error {
				answers, err := cl.DescribeLimits(ctx, f)
				return printed(env, err, func() error { return o.printLimits(env, answers, err) })
			})
		},
	}
	const most = 10
	o.flags(c, most)
	return c
}

// flags gives c the flags of both, with how many addresses are shown unless it is said.
func (o *limitsOptions) flags(c *cobra.Command, addresses int32) {
	addBootstrap(c, &o.bootstrapOptions)
	f := c.Flags()
	f.StringVar(&o.listener, "listener", "", "only the listener of this `NAME`, beside the broker's limits")
	f.StringVar(&o.address, "client-address", "", "only client addresses in this IP `address` or prefix such as 10.0.0.0/8")
	f.Int32Var(&o.addresses, "addresses", addresses, "how many client addresses to show, the busiest first, at most 1000")
	addNodes(c, &o.nodes)
	addFormat(c, &o.format)
}

// filter is what the command line asks for.
func (o *limitsOptions) filter(c *cobra.Command) (admin.LimitsFilter, error) {
	if o.addresses < 1 {
		return admin.LimitsFilter{}, usage("--addresses must be at least 1")
	}
	if err := checkAddress(c, o.address); err != nil {
		return admin.LimitsFilter{}, err
	}
	return admin.LimitsFilter{
		Listener: given(c, "listener", o.listener), Address: given(c, "client-address", o.address), Addresses: o.addresses, Nodes: o.nodes,
	}, nil
}

// checkAddress refuses a --client-address that is neither an address nor a prefix before a broker does.
func checkAddress(c *cobra.Command, text string) error {
	if !c.Flags().Changed("client-address") {
		return nil
	}
	_, address := netip.ParseAddr(text)
	_, prefix := netip.ParsePrefix(text)
	if address != nil && prefix != nil {
		return usage(fmt.Sprintf("--client-address: %q is neither an IP address nor a prefix", text))
	}
	return nil
}
