//go:build linux

package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/netlab/topology"
	"github.com/brokerlab/brokerlab/scenarios/reproduce"
)

type labUpOptions struct {
	wait   time.Duration
	noIPv6 bool
	format format
}

func newLabUp(env Env) *cobra.Command {
	var o labUpOptions
	c := &cobra.Command{
		Use:   "up FILE",
		Short: "Build the lab of a lab file and leave it running",
		Long: `Build the lab of a lab file, wait until every listener of every node is open, create its topics and rules, print how to
reach it, and leave it running. A lab that is up already is completed: nodes that do not run are started. If building fails, nothing is left.
Versions of Apache Kafka that nodes run and this machine does not have are fetched first, with Maven.

Exit status: 0 when the lab is up, 1 when it could not be built, 2 when the file is wrong.`,
		Example: "  sudo brokerlab lab up examples/quickstart.yaml",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return labUp(c.Context(), env, args[0], o) },
	}
	c.Flags().DurationVar(&o.wait, "wait", 3*time.Minute, "how long the lab may take until every listener is open")
	c.Flags().BoolVar(&o.noIPv6, "no-ipv6", false, "leave IPv6 out, as on a machine without it")
	addFormat(c, &o.format)
	return c
}

func labUp(ctx context.Context, env Env, file string, o labUpOptions) error {
	topo, err := topology.Load(file)
	if err == nil && reproduce.Wants(topo) {
		_, err = reproduce.Open(topo)
	}
	if err != nil {
		return &ExitError{Code: 2, Err: fmt.Errorf("lab file cannot be used:\n%w", err)}
	}
	for i := range topo.Nodes {
		n := &topo.Nodes[i]
		if n.Kind != topology.Kafka || n.Home != "" {
			continue
		}
		if _, err = haveKafka(ctx, env, n.Version); err != nil {
			return fmt.Errorf("node %s: %w", n.Name, err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.wait, fmt.Errorf("not up within %v (--wait)", o.wait))
	defer cancel()
	p := newProgress(env.Stderr)
	options := netlab.Options{Progress: p.set}
	if o.noIPv6 {
		options.NoIPv6 = "--no-ipv6 was given"
	}
	lab, err := netlab.Up(ctx, topo, options)
	if err == nil && reproduce.Wants(topo) {
		p.set("creating topics and rules")
		err = reproduce.Seed(ctx, lab, topo)
	}
	p.stop()
	if err != nil {
		return err
	}
	st, err := lab.Inspect(ctx)
	if err != nil {
		return err
	}
	if o.format == formatJSON {
		return printJSON(env.Stdout, st)
	}
	return printUp(env.Stdout, lab, st)
}

// printUp says what is there and how to reach it.
func printUp(w io.Writer, lab *netlab.Lab, st *netlab.Status) error {
	var b strings.Builder
	addresses := 0
	for i := range st.Subnets {
		addresses += len(st.Subnets[i].Prefixes)
	}
	fmt.Fprintf(&b, "Lab %s is up: %s, %s with %s.\nIts files are below %s\n", st.Name,
		plural(len(st.Nodes), "node"), plural(len(st.Subnets), "subnet"), plural(addresses, "prefix"), st.Folder)
	for _, s := range st.Skipped {
		fmt.Fprintf(&b, "  without %s %s: %s\n", s.Name, s.What, s.Why)
	}
	for i := range st.Nodes {
		printNode(&b, st.Folder, &st.Nodes[i])
	}
	if len(st.Subnets) > 0 {
		s := &st.Subnets[0]
		command := "ip addr"
		for i := range st.Nodes {
			if l := st.Nodes[i].Listeners; len(l) > 0 {
				command = "kcat -L -b " + l[0].Advertised
				break
			}
		}
		fmt.Fprintf(&b, "\nFrom a subnet:     brokerlab lab exec %s %s -- %s\n", st.Name, s.Name, command)
	}
	fmt.Fprintf(&b, "Produce, consume:  brokerlab lab inspect %s (prints commands to paste)\nTake it down:      brokerlab lab down %s\n", st.Name, lab.Name())
	_, err := io.WriteString(w, b.String())
	return err
}

func printNode(b *strings.Builder, folder string, n *netlab.NodeStatus) {
	fmt.Fprintf(b, "\n%s %s at", n.Kind, n.Name)
	for _, a := range n.Addresses {
		fmt.Fprintf(b, " %s", a)
	}
	b.WriteString("\n")
	for _, l := range n.Listeners {
		from := "in the lab:   "
		if fromHost(l) {
			from = "from the host:"
		}
		fmt.Fprintf(b, "  %s %-16s %-15s %s\n", from, l.Advertised, l.Protocol, strings.TrimPrefix(l.Properties[0], folder+"/"))
	}
	if len(n.Listeners) == 0 {
		for _, p := range n.Exposed {
			fmt.Fprintf(b, "  from the host: 127.0.0.1:%d\n", p)
		}
	}
}
