//go:build linux

package command

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/internal/kernelsource"
)

func newKernel(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "kernel",
		Short: "What the kernel itself counts of connections",
		Long: `What the kernel itself counts of connections, on a port of this machine or on the brokers of a cluster.

A number is never shown without its source. Counted by BPF programs it is exact, and whatever was lost is said. Without
the privileges for them the socket table is polled: then a number is a lower bound (≥), and what is not known is a
dash.`,
		Example: "  sudo brokerlab kernel show --port 9092\n  sudo brokerlab kernel show --lab quickstart",
	}
	c.AddCommand(newKernelShow(env), newKernelWatch(env), newKernelReconcile(env))
	return c
}

// kernelOptions are the flags of brokerlab kernel show and watch.
type kernelOptions struct {
	ports    []uint
	cluster  bootstrapOptions
	lab      string
	nodes    []string // ids of brokers, or with lab names
	listener string
	sources  int
	format   format
	interval time.Duration // of watch
	count    int           // of watch
}

func (o *kernelOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.UintSliceVar(&o.ports, "port", nil, "a `port` of any program in this network namespace; may be repeated")
	f.Lookup("port").DefValue = "" // none
	f.StringVar(&o.listener, "listener", "", "only the listener of this `name` (not with --port)")
	f.StringVar(&o.lab, "lab", "", "the brokers of a `lab` of this machine, also those that are Apache Kafka")
	f.StringSliceVar(&o.nodes, "node", nil, "only the broker of this `id`, with --lab the node of this name; may be repeated")
	f.Lookup("node").DefValue = "" // all
	f.IntVar(&o.sources, "sources", 10, "how many source prefixes to print, the fullest first; 0 for all")
	f.StringVar(&o.cluster.servers, "bootstrap-server", "", "`host:port` of one or more brokers, separated by commas; IPv6 in brackets")
	f.StringVar(&o.cluster.config, "command-config", "", "a client.properties `file`: how to authenticate and encrypt")
	addFormat(c, &o.format)
}

func newKernelShow(env Env) *cobra.Command {
	var o kernelOptions
	c := &cobra.Command{
		Use:   "show (--port N | --bootstrap-server HOST:PORT | --lab LAB)",
		Short: "Count the connections of a port, a cluster or a lab once",
		Long: `Count the connections of a port, a cluster or a lab once: in all, TLS and plaintext by their first bytes, undecided ones,
those that are served, by listener and by source prefix (/24 and /64).

With --port this command attaches to the kernel for a moment and counts the connections that are there, of whatever
program: a Kafka that runs already, too. What they sent before cannot be known any more, so those that have sent
something are shown as unknown. The start-up gap is how many of them could not be counted. With --bootstrap-server the
brokers are asked, all of the cluster at once, who have counted since they started: one that does not answer is named on
standard error, and the exit status is 1. With --lab the lab's owner is asked, who has counted since the lab was built; the
brokers may be Apache Kafka.`,
		Example: `  brokerlab kernel show --port 9092
  brokerlab kernel show --port 9092 --port 9093 --format json
  brokerlab kernel show --bootstrap-server broker1:9092 --command-config admin.properties
  brokerlab kernel show --bootstrap-server broker1:9092 --node 1 --node 2
  sudo brokerlab kernel show --lab kafka --node kafka1`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runKernelShow(c.Context(), env, &o) },
	}
	o.flags(c)
	return c
}

func newKernelWatch(env Env) *cobra.Command {
	var o kernelOptions
	c := &cobra.Command{
		Use:   "watch (--port N | --bootstrap-server HOST:PORT | --lab LAB)",
		Short: "Count the connections of a port, a cluster or a lab again and again",
		Long: `Count the connections of a port, a cluster or a lab again and again, until interrupted or --count times. On a terminal the
picture is refreshed in place; elsewhere each listener is a line of key=value pairs, or with --format json each count a
document on a line. A broker that does not answer is named when that begins, and when it answers again.`,
		Example: `  brokerlab kernel watch --port 9092
  brokerlab kernel watch --bootstrap-server broker1:9092 --interval 5s --format json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runKernelWatch(c.Context(), env, &o) },
	}
	o.flags(c)
	c.Flags().DurationVar(&o.interval, "interval", time.Second, "`time` between two counts")
	c.Flags().IntVar(&o.count, "count", 0, "`times` to count; 0 until interrupted")
	return c
}

// kernelCounts is what was counted in one place: here, or by one broker. It is the JSON document.
type kernelCounts struct {
	Time       time.Time           `json:"time"`
	Node       *int32              `json:"node,omitempty"`       // of the broker that was asked
	Name       string              `json:"name,omitempty"`       // of the node of the lab that was asked about
	StartUpGap *int64              `json:"startUpGap,omitempty"` // connections from before that could not be counted; absent where a broker was asked
	Report     broker.KernelReport `json:"report,omitzero"`
	Prefixes   []prefixCount       `json:"prefixes,omitzero"`
	Error      string              `json:"error,omitempty"` // why the broker did not answer, in place of the above
}

// prefixCount is the connections of the addresses of one /24 or /64.
type prefixCount struct {
	Port   uint16       `json:"port"`
	Prefix netip.Prefix `json:"prefix"`
	Count  int64        `json:"count"`
}

// counting asks for counts again and again; its close ends it.
type counting struct {
	ask   func(context.Context) ([]kernelCounts, error)
	close func() error
}

// begin makes the connection to whatever counts.
func (o *kernelOptions) begin(env Env, watch ...*watching) (*counting, error) {
	switch {
	case len(o.ports) > 0 && o.cluster.servers != "":
		return nil, usage("--port and --bootstrap-server are two questions: ask one")
	case o.lab != "" && (len(o.ports) > 0 || o.cluster.servers != ""):
		return nil, usage("--lab and --port or --bootstrap-server are two questions: ask one")
	case len(o.nodes) > 0 && len(o.ports) > 0:
		return nil, usage("--node needs --bootstrap-server or --lab: a port is of this machine")
	case o.lab != "":
		return o.beginLab()
	case len(o.ports) > 0 && o.listener != "":
		return nil, usage("--listener needs --bootstrap-server or --lab: a port does not know the names of its program's listeners")
	case len(o.ports) > 0:
		return o.beginHere()
	case o.cluster.servers != "":
		return o.beginCluster(env, watch...)
	}
	return nil, usage("what to count: --port, --bootstrap-server or --lab")
}

func (o *kernelOptions) beginHere() (*counting, error) {
	ports := make([]uint16, 0, len(o.ports))
	for _, p := range o.ports {
		if p == 0 || p > 65535 {
			return nil, usage(fmt.Sprintf("%d is no port", p))
		}
		ports = append(ports, uint16(p))
	}
	source, err := kernelsource.Local(kernelsource.Auto, kernelsource.Options{})
	if err != nil {
		return nil, err
	}
	if err := source.Watch(ports); err != nil {
		return nil, errors.Join(err, source.Close())
	}
	ask := func(ctx context.Context) ([]kernelCounts, error) {
		report, err := source.Report(ctx)
		if err != nil {
			return nil, err
		}
		c := kernelCounts{Time: time.Now(), Report: report}
		if g, ok := source.(interface{ StartUpGap() int64 }); ok && report.Mode == broker.KernelModeFull {
			gap := g.StartUpGap()
			c.StartUpGap = &gap
		}
		return []kernelCounts{c}, nil
	}
	return &counting{ask, source.Close}, nil
}

func (o *kernelOptions) beginCluster(env Env, watch ...*watching) (*counting, error) {
	filter := admin.KernelFilter{Sources: true}
	for _, node := range o.nodes {
		id, err := strconv.ParseInt(node, 10, 32)
		if err != nil {
			return nil, usage(fmt.Sprintf("--node: %q is no broker's id", node))
		}
		filter.Nodes = append(filter.Nodes, int32(id))
	}
	cl, err := o.cluster.open(env, watch...)
	if err != nil {
		return nil, err
	}
	if o.listener != "" {
		filter.Listener = &o.listener
	}
	ask := func(ctx context.Context) ([]kernelCounts, error) {
		var counts []kernelCounts
		failed := cl.call(ctx, func(ctx context.Context) error {
			answers, err := cl.admin.DescribeKernel(ctx, filter)
			for _, a := range answers {
				counts = append(counts, kernelCounts{Time: time.Now(), Node: &a.NodeID, Report: reportOf(a)})
			}
			return err
		})
		return counts, failed
	}
	return &counting{ask, func() error { cl.kgo.Close(); return nil }}, nil
}

// reportOf is a broker's answer in the shape of a report.
func reportOf(a *protocol.DescribeKernelResponse) broker.KernelReport {
	g := &a.Group
	r := broker.KernelReport{
		Mode: a.Mode, Exactness: a.Exactness, Why: a.Why, Ports: []broker.KernelPort{}, Lost: map[string]uint64{},
		Group: broker.KernelGauge{
			Established: g.Established, TLS: g.TLS, Plaintext: g.Plaintext, Undecided: g.Undecided, Unknown: g.Unknown,
			Opened: g.Opened, Closed: g.Closed, Served: g.Served, ServedMax: g.ServedMax,
			ServedTLS: g.ServedTLS, ServedTLSMax: g.ServedTLSMax, ServedTotal: g.ServedTotal,
		},
	}
	for _, l := range a.Lost {
		r.Lost[l.Cause] = l.Count
	}
	for i := range a.Ports {
		p := &a.Ports[i]
		k := broker.KernelPort{
			Port: uint16(p.Port), Listener: p.ListenerName, Established: p.Gauge.Established,
			TLS: p.Gauge.TLS, Plaintext: p.Gauge.Plaintext, Undecided: p.Gauge.Undecided, Unknown: p.Gauge.Unknown,
			Opened: p.Gauge.Opened, Closed: p.Gauge.Closed, Seeded: p.Seeded, BytesIn: p.BytesIn, BytesOut: p.BytesOut,
			Served: p.Gauge.Served, ServedMax: p.Gauge.ServedMax, ServedTLS: p.Gauge.ServedTLS,
			ServedTLSMax: p.Gauge.ServedTLSMax, ServedTotal: p.Gauge.ServedTotal,
			AcceptQueue: p.AcceptQueue, Closing: p.Closing, Backlog: p.Backlog, Overflows: p.Overflows,
		}
		for _, s := range p.Sources {
			if addr, err := netip.ParseAddr(s.Address); err == nil {
				k.Sources = append(k.Sources, broker.KernelSourceCount{Addr: addr, Count: s.Count})
			}
		}
		r.Ports = append(r.Ports, k)
	}
	return r
}

func runKernelShow(ctx context.Context, env Env, o *kernelOptions) error {
	c, err := o.begin(env) //nolint:contextcheck // what it connects to bounds itself
	if err != nil {
		return err
	}
	counts, asked := c.ask(ctx)
	o.prepare(counts)
	if o.listener != "" && asked == nil && !slices.ContainsFunc(counts, func(c kernelCounts) bool { return len(c.Report.Ports) > 0 }) {
		return errors.Join(usage(fmt.Sprintf("--listener: no broker has a listener %q", o.listener)), c.close())
	}
	if len(counts) > 0 || asked != nil && !nobody(asked) { // those of the brokers that answered are shown beside the errors of the others
		if o.format == formatJSON {
			err = printJSON(env.Stdout, withMissing(counts, asked))
		} else {
			err = printCounts(env.Stdout, counts, o.sources)
		}
	}
	return errors.Join(brokerErrors(env, asked), err, c.close())
}

// withMissing adds the brokers that did not answer to what is printed as JSON.
func withMissing(counts []kernelCounts, asked error) []kernelCounts {
	for _, b := range jsonErrors(asked) {
		counts = append(counts, kernelCounts{Time: time.Now(), Node: &b.NodeID, Error: b.Error})
	}
	return counts
}

func runKernelWatch(ctx context.Context, env Env, o *kernelOptions) error {
	if o.interval <= 0 || o.count < 0 {
		return usage("--interval must be more than nothing, --count at least 0")
	}
	w := &watching{env: env, interval: o.interval, count: o.count}
	c, err := o.begin(env, w) //nolint:contextcheck // what it connects to bounds itself
	if err != nil {
		return err
	}
	return errors.Join(watchCounts(ctx, w, o, c), c.close())
}

// watchCounts prints until it was done w.count times or ctx is done, which is no error.
func watchCounts(ctx context.Context, w *watching, o *kernelOptions, c *counting) error {
	var counts []kernelCounts
	ask := func(ctx context.Context) (bool, error) {
		var err error
		counts, err = c.ask(ctx)
		return len(counts) > 0, err
	}
	return w.run(ctx, ask, func(asked error) error {
		o.prepare(counts)
		return o.printAgain(w.env, counts, asked)
	})
}
