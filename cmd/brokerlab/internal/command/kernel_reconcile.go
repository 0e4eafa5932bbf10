//go:build linux

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/internal/reconcile"
)

// reconcileOptions are the flags of brokerlab kernel reconcile.
type reconcileOptions struct {
	cluster bootstrapOptions
	nodes   []int32
	format  format
	reads   int
	pause   time.Duration
}

func newKernelReconcile(env Env) *cobra.Command {
	var o reconcileOptions
	c := &cobra.Command{
		Use:   "reconcile --bootstrap-server HOST:PORT",
		Short: "Compare each broker's list of connections with the kernel's count",
		Long: `Compare each broker's list of connections with the kernel's count, listener by listener.

The two differ for known reasons, which are named and counted: a connection waits in the accept queue (QUEUE), the
acceptor holds it (HELD), it waits for its network thread (PENDING), it is being closed (CLOSING), or it came or went
while the two were read (CHANGED). What is left is unexplained; it is a finding only if it is still there when both are
read again, up to --reads times.

Exit status: 0 everything is explained; 1 something is not, or a broker did not answer: the others are compared all the
same, and it is named on standard error; 2 it could not be found out.`,
		Example: `  brokerlab kernel reconcile --bootstrap-server broker1:9092
  brokerlab kernel reconcile --bootstrap-server broker1:9092 --node 1 --node 2
  brokerlab kernel reconcile --bootstrap-server broker1:9092 --format json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runReconcile(c.Context(), env, &o) },
	}
	addBootstrap(c, &o.cluster)
	addNodes(c, &o.nodes)
	addFormat(c, &o.format)
	c.Flags().IntVar(&o.reads, "reads", 5, "how many `times` to read at most, before a difference is believed")
	c.Flags().DurationVar(&o.pause, "pause", 300*time.Millisecond, "`time` between two readings")
	return c
}

func runReconcile(ctx context.Context, env Env, o *reconcileOptions) error {
	if o.reads < 2 {
		return usage("--reads must be at least 2: a difference that is seen once may only be a delay")
	}
	var results []reconcile.Broker
	err := o.cluster.withCluster(ctx, env, func(ctx context.Context, adm *admin.Client) (err error) {
		results, err = reconcile.Cluster(ctx, adm, o.reads, o.pause, o.nodes...)
		return err
	})
	if errors.Is(err, admin.ErrNotOffered) {
		err = fmt.Errorf("%w\nApache Kafka has no list of its connections to compare with. What the kernel counts for it in a lab: brokerlab kernel show --lab LAB", err)
	}
	if err != nil && len(results) == 0 {
		return &ExitError{Code: 2, Err: err}
	}
	asked := err
	if o.format == formatJSON {
		all := results
		for _, b := range jsonErrors(asked) {
			all = append(all, reconcile.Broker{Node: b.NodeID, Listeners: []reconcile.Result{}, Error: b.Error})
		}
		err = printJSON(env.Stdout, all)
	} else {
		err = printReconciled(env.Stdout, results)
	}
	if err != nil {
		return err
	}
	unheard := brokerErrors(env, asked)
	if slices.ContainsFunc(results, func(r reconcile.Broker) bool { return r.Mode == broker.KernelModeOff }) {
		return &ExitError{Code: 2, Err: errors.New("a broker's sockets are not counted: set kernel.accounting=auto there")}
	}
	if slices.ContainsFunc(results, func(r reconcile.Broker) bool { return !r.Explained }) {
		return &ExitError{Code: 1, Err: errors.New("there are unexplained differences")}
	}
	return unheard
}

func printReconciled(w io.Writer, results []reconcile.Broker) error {
	var text strings.Builder
	for i := range results {
		r := &results[i]
		if i > 0 {
			text.WriteByte('\n')
		}
		fmt.Fprintf(&text, "broker %d: kernel side is %s (%s)", r.Node, r.Exactness, r.Mode)
		if r.Why != "" {
			fmt.Fprintf(&text, ": %s", r.Why)
		}
		text.WriteByte('\n')
		columns(&text, reconcileRows(r), tabwriter.AlignRight)
		addLone(&text, r)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// reconcileRows is a broker's table. A class between the two counts is shown only where a connection is in it.
func reconcileRows(r *reconcile.Broker) [][]string {
	type class struct {
		name   string
		always bool
		count  func(*reconcile.Result) int64
	}
	classes := []class{
		{"KERNEL", true, func(l *reconcile.Result) int64 { return l.Kernel }},
		{"BROKER", true, func(l *reconcile.Result) int64 { return l.Broker }},
		{"MATCHED", true, func(l *reconcile.Result) int64 { return l.Matched }},
		{"HANDSHAKING", false, func(l *reconcile.Result) int64 { return l.Handshaking }},
		{"QUEUE", false, func(l *reconcile.Result) int64 { return l.AcceptQueue }},
		{"HELD", false, func(l *reconcile.Result) int64 { return l.Held }},
		{"PENDING", false, func(l *reconcile.Result) int64 { return l.Queued }},
		{"CLOSING", false, func(l *reconcile.Result) int64 { return l.Closing }},
		{"CHANGED", false, func(l *reconcile.Result) int64 { return l.Changed }},
		{"UNCOUNTED", false, func(l *reconcile.Result) int64 { return l.Uncounted }},
		{"KERNEL ONLY", true, func(l *reconcile.Result) int64 { return l.KernelOnly }},
		{"BROKER ONLY", true, func(l *reconcile.Result) int64 { return l.BrokerOnly }},
	}
	classes = slices.DeleteFunc(classes, func(c class) bool {
		return !c.always && !slices.ContainsFunc(r.Listeners, func(l reconcile.Result) bool { return c.count(&l) != 0 })
	})
	rows := [][]string{{"LISTENER", "PORT"}}
	for _, c := range classes {
		rows[0] = append(rows[0], c.name)
	}
	for i := range r.Listeners {
		l := &r.Listeners[i]
		row := []string{cmp.Or(l.Listener, "-"), strconv.Itoa(int(l.Port))}
		for _, c := range classes {
			row = append(row, strconv.FormatInt(c.count(l), 10))
		}
		rows = append(rows, row)
	}
	return rows
}

// mostLone is how many unexplained connections are printed one by one.
const mostLone = 20

func addLone(text *strings.Builder, r *reconcile.Broker) {
	for i := range r.Listeners {
		l := &r.Listeners[i]
		if l.Explained() {
			continue
		}
		fmt.Fprintf(text, "UNEXPLAINED on %s: %d in the kernel only, %d in the broker only\n",
			cmp.Or(l.Listener, strconv.Itoa(int(l.Port))), l.KernelOnly, l.BrokerOnly)
		for _, c := range l.BrokerConns[:min(len(l.BrokerConns), mostLone)] {
			fmt.Fprintf(text, "  listed, and unknown to the kernel: %s from %s\n", c.ID, c.Remote)
		}
	}
}
