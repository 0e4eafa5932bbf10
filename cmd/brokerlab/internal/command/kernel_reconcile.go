package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker"
	"github.com/brokerlab/brokerlab/broker/admin"
	"github.com/brokerlab/brokerlab/broker/protocol"
	"github.com/brokerlab/brokerlab/internal/reconcile"
)

// reconcileOptions are the flags of brokerlab kernel reconcile.
type reconcileOptions struct {
	cluster bootstrapOptions
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

Exit status: 0 everything is explained, 1 something is not, 2 it could not be found out.`,
		Example: `  brokerlab kernel reconcile --bootstrap-server broker1:9092
  brokerlab kernel reconcile --bootstrap-server broker1:9092 --command-config admin.properties --format json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runReconcile(c.Context(), env, &o) },
	}
	addBootstrap(c, &o.cluster)
	addFormat(c, &o.format)
	c.Flags().IntVar(&o.reads, "reads", 5, "how many `times` to read at most, before a difference is believed")
	c.Flags().DurationVar(&o.pause, "pause", 300*time.Millisecond, "`time` between two readings")
	return c
}

// reconciled is one broker's comparison. It is the JSON document.
type reconciled struct {
	Node      int32              `json:"node"`
	Mode      string             `json:"mode"`
	Exactness string             `json:"exactness"`
	Why       string             `json:"why,omitempty"`
	Explained bool               `json:"explained"`
	Listeners []reconcile.Result `json:"listeners"`
}

func runReconcile(ctx context.Context, env Env, o *reconcileOptions) error {
	if o.reads < 2 {
		return usage("--reads must be at least 2: a difference that is seen once may only be a delay")
	}
	var results []reconciled
	err := o.cluster.withCluster(ctx, env, func(ctx context.Context, adm *admin.Client) (err error) {
		results, err = readUntilExplained(ctx, adm, o)
		return err
	})
	if err != nil {
		return &ExitError{Code: 2, Err: err}
	}
	if o.format == formatJSON {
		err = printJSON(env.Stdout, results)
	} else {
		err = printReconciled(env.Stdout, results)
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(results, func(r reconciled) bool { return r.Mode == broker.KernelModeOff }) {
		return &ExitError{Code: 2, Err: errors.New("a broker's sockets are not counted: set kernel.accounting=auto there")}
	}
	if slices.ContainsFunc(results, func(r reconciled) bool { return !r.Explained }) {
		return &ExitError{Code: 1, Err: errors.New("there are unexplained differences")}
	}
	return nil
}

// readUntilExplained reads until nothing unexplained is left, or what is left was there in every reading.
func readUntilExplained(ctx context.Context, adm *admin.Client, o *reconcileOptions) ([]reconciled, error) {
	var last []reconciled
	for n := range o.reads {
		if n > 0 {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(o.pause):
			}
		}
		now, err := readBoth(ctx, adm)
		if err != nil {
			return nil, err
		}
		if last != nil {
			now = confirmed(last, now)
		}
		last = now
		if !slices.ContainsFunc(now, func(r reconciled) bool { return !r.Explained }) {
			break
		}
	}
	return last, nil
}

// confirmed keeps of what is unexplained now what was unexplained before.
func confirmed(before, now []reconciled) []reconciled {
	for i := range now {
		r := &now[i]
		r.Explained = true
		for j := range r.Listeners {
			l := &r.Listeners[j]
			*l = reconcile.Confirm(sameListener(before, r.Node, l.Port), l)
			r.Explained = r.Explained && l.Explained()
		}
	}
	return now
}

func sameListener(all []reconciled, node int32, port uint16) *reconcile.Result {
	for i := range all {
		for j := range all[i].Listeners {
			if l := &all[i].Listeners[j]; all[i].Node == node && l.Port == port {
				return l
			}
		}
	}
	return &reconcile.Result{}
}

// readBoth reads the kernel's counts before and after the list, to know how much changed meanwhile.
func readBoth(ctx context.Context, adm *admin.Client) ([]reconciled, error) {
	before, err := adm.DescribeKernel(ctx, admin.KernelFilter{})
	if err != nil {
		return nil, err
	}
	conns, err := adm.DescribeConnections(ctx, admin.DescribeFilter{Kernel: true})
	if err != nil {
		return nil, err
	}
	after, err := adm.DescribeKernel(ctx, admin.KernelFilter{})
	if err != nil {
		return nil, err
	}
	var results []reconciled
	for _, a := range after {
		r := reconciled{Node: a.NodeID, Mode: a.Mode, Exactness: a.Exactness, Why: a.Why, Explained: true}
		for i := range a.Ports {
			c := countsOf(a, &a.Ports[i], conns)
			c.Changed = changed(portOf(before, a.NodeID, a.Ports[i].Port), &a.Ports[i])
			l := reconcile.Compare(c)
			if a.Mode == broker.KernelModeOff {
				continue
			}
			r.Explained = r.Explained && l.Explained()
			r.Listeners = append(r.Listeners, l)
		}
		results = append(results, r)
	}
	return results, nil
}

func portOf(answers []*protocol.DescribeKernelResponse, node, port int32) *protocol.DescribeKernelResponsePort {
	for _, a := range answers {
		for i := range a.Ports {
			if a.NodeID == node && a.Ports[i].Port == port {
				return &a.Ports[i]
			}
		}
	}
	return &protocol.DescribeKernelResponsePort{}
}

// changed is how many connections opened or closed between two answers.
func changed(before, after *protocol.DescribeKernelResponsePort) int64 {
	return int64(after.Gauge.Opened - before.Gauge.Opened + after.Gauge.Closed - before.Gauge.Closed)
}

func countsOf(a *protocol.DescribeKernelResponse, p *protocol.DescribeKernelResponsePort, conns []admin.Connection) *reconcile.Counts {
	c := &reconcile.Counts{
		Listener: p.ListenerName, Port: uint16(p.Port), Kernel: p.Gauge.Established,
		Known:      reconcile.Known{AcceptQueue: p.AcceptQueue},
		LowerBound: a.Exactness == broker.KernelLowerBound,
	}
	if b := p.Broker; b != nil {
		c.Known.Held, c.Known.Queued, c.Known.Closing = b.Held, b.Queued, b.Closing
	}
	for i := range conns {
		k := &conns[i]
		if k.NodeID != a.NodeID || k.LocalPort != p.Port {
			continue
		}
		c.Broker++
		handshaking := k.State == protocol.StateHandshaking || k.State == protocol.StateAuthenticating
		if handshaking {
			c.Handshaking++
		}
		if k.Kernel == nil {
			c.Lone = append(c.Lone, reconcile.Conn{
				ID: k.ConnectionID, Remote: addrPort(k.ClientAddress, k.ClientPort), Cookie: k.SocketCookie,
				Handshaking: handshaking, Closing: k.State == protocol.StateClosing,
			})
		}
	}
	return c
}

func addrPort(addr string, port int32) netip.AddrPort {
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a, uint16(port))
}

func printReconciled(w io.Writer, results []reconciled) error {
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
		rows := [][]string{{
			"LISTENER", "PORT", "KERNEL", "BROKER", "MATCHED", "HANDSHAKING", "QUEUE", "HELD", "PENDING", "CLOSING", "CHANGED",
			"UNCOUNTED", "KERNEL ONLY", "BROKER ONLY",
		}}
		for j := range r.Listeners {
			l := &r.Listeners[j]
			row := []string{cmp.Or(l.Listener, "-"), strconv.Itoa(int(l.Port))}
			for _, n := range []int64{
				l.Kernel, l.Broker, l.Matched, l.Handshaking, l.AcceptQueue, l.Held, l.Queued, l.Closing, l.Changed, l.Uncounted,
				l.KernelOnly, l.BrokerOnly,
			} {
				row = append(row, strconv.FormatInt(n, 10))
			}
			rows = append(rows, row)
		}
		columns(&text, rows, tabwriter.AlignRight)
		addLone(&text, r)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// mostLone is how many unexplained connections are printed one by one.
const mostLone = 20

func addLone(text *strings.Builder, r *reconciled) {
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
