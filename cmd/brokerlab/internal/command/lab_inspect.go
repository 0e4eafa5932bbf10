//go:build linux

package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

// someSubnets is how many subnets the table shows before it only counts them.
const someSubnets = 20

type labInspectOptions struct {
	all    bool
	wide   bool
	format format
}

func newLabInspect(env Env) *cobra.Command {
	var o labInspectOptions
	c := &cobra.Command{
		Use:   "inspect FILE|NAME",
		Short: "Show what a lab consists of and how it is",
		Long: `Show a lab's nodes, listeners and subnets, whether its processes run, and where its files are. Clients of an exposed
port all have the router's address. Commands that produce and consume are printed too, ready to be pasted into a root
shell; with --wide for every listener.`,
		Example: "  sudo brokerlab lab inspect quickstart\n  sudo brokerlab lab inspect --all --format json",
		Args:    oneOrAll(&o.all),
		RunE:    func(c *cobra.Command, args []string) error { return labInspect(c.Context(), env, args, o) },
	}
	c.Flags().BoolVar(&o.all, "all", false, "show all labs of this machine")
	c.Flags().BoolVar(&o.wide, "wide", false, "show all subnets, all properties files, and commands for every listener")
	addFormat(c, &o.format)
	return c
}

func labInspect(ctx context.Context, env Env, args []string, o labInspectOptions) error {
	if err := netlab.Privileges(); err != nil {
		return err
	}
	if !o.all {
		lab, err := openLab(args[0])
		if err != nil {
			return err
		}
		st, err := inspect(ctx, lab)
		if err != nil {
			return err
		}
		if o.format == formatJSON {
			return printJSON(env.Stdout, st)
		}
		return printStatus(env.Stdout, st, o.wide)
	}
	all, err := inspectAll(ctx)
	if err != nil {
		return err
	}
	if o.format == formatJSON {
		return printJSON(env.Stdout, all)
	}
	return printAll(env.Stdout, all)
}

// inspect asks the owner, which answers at once or is in trouble.
func inspect(ctx context.Context, lab *netlab.Lab) (*netlab.Status, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, fmt.Errorf("the owner of lab %s does not answer", lab.Name()))
	defer cancel()
	return lab.Inspect(ctx)
}

func printStatus(w io.Writer, st *netlab.Status, wide bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Lab %s: %s", st.Name, st.State)
	if st.OwnerPID != 0 {
		fmt.Fprintf(&b, " since %s, owner %d", st.Since.Format(time.DateTime), st.OwnerPID)
	}
	fmt.Fprintf(&b, "\nFiles are below %s\n", st.Folder)
	if st.State == netlab.LabOwnerless {
		b.WriteString("Its owner is gone: nodes, exposed ports and counts may not work. Bring it up again, or take it down.\n")
	}
	if st.Error != "" {
		fmt.Fprintf(&b, "Error: %s\n", st.Error)
	}
	if st.Kernel != "" {
		fmt.Fprintf(&b, "Its connections are counted by: %s\n", cmp.Or(countedBy()[st.Kernel], st.Kernel))
	}
	for _, s := range st.Skipped {
		fmt.Fprintf(&b, "Without %s %s: %s\n", s.Name, s.What, s.Why)
	}
	for _, c := range st.Cuts {
		fmt.Fprintf(&b, "Cut from each other: %s and %s (brokerlab lab heal takes it back)\n", c.A, c.B)
	}
	printNodes(&b, st)
	printClusters(&b, st)
	printListeners(&b, st, wide)
	printSubnets(&b, st, wide)
	printPastes(&b, st, wide)
	_, err := io.WriteString(w, b.String())
	return err
}

func printNodes(b *strings.Builder, st *netlab.Status) {
	rows := [][]string{{"NODE", "KIND", "STATE", "PID", "ADDRESSES", "LOG"}}
	for i := range st.Nodes {
		n := &st.Nodes[i]
		state, pid := n.State, "-"
		if n.Reason != "" {
			state += " (" + n.Reason + ")"
		}
		if n.PID != 0 {
			pid = strconv.Itoa(n.PID)
		}
		rows = append(rows, []string{n.Name, strings.TrimSpace(n.Kind + " " + n.Version), state, pid, joined(n.Addresses), strings.TrimPrefix(n.Log, st.Folder+"/")})
	}
	section(b, rows)
}

// printClusters tells which brokers are faces of what.
func printClusters(b *strings.Builder, st *netlab.Status) {
	names := func(cluster string, kinds ...string) (all []string) {
		for i := range st.Nodes {
			if n := &st.Nodes[i]; n.Cluster == cluster && slices.Contains(kinds, n.Kind) {
				all = append(all, n.Name)
			}
		}
		return all
	}
	var told []string
	for i := range st.Nodes {
		c := st.Nodes[i].Cluster
		faces, engine := names(c, topology.Broker), names(c, topology.Engine, topology.Kafka)
		if len(faces) == 0 || len(engine) == 0 || slices.Contains(told, c) {
			continue
		}
		told = append(told, c)
		fmt.Fprintf(b, "\nCluster %s: %s, before %s\n", c, strings.Join(faces, ", "), strings.Join(engine, ", "))
	}
}

func printListeners(b *strings.Builder, st *netlab.Status, wide bool) {
	rows := [][]string{{"LISTENER", "NODE", "PROTOCOL", "ADVERTISED", "CLIENT PROPERTIES, BELOW properties/"}}
	exposed := false
	for i := range st.Nodes {
		n := &st.Nodes[i]
		exposed = exposed || len(n.Exposed) > 0
		for _, l := range n.Listeners {
			row := []string{l.Name, n.Name, l.Protocol, l.Advertised}
			for _, files := range clientFiles(l, st.Folder, wide) {
				rows = append(rows, append(row, files))
				row = make([]string, len(row))
			}
		}
		for _, p := range n.Exposed {
			if len(n.Listeners) == 0 {
				rows = append(rows, []string{"-", n.Name, "-", fmt.Sprintf("127.0.0.1:%d", p), "-"})
			}
		}
	}
	section(b, rows)
	if exposed {
		fmt.Fprintf(b, "Clients of exposed ports (127.0.0.1) have the router's address: %s.\n", st.Router[0])
	}
}

// clientFiles are the properties files for a listener, below the lab's folder for them, a row each: all, or the first and how many more.
func clientFiles(l netlab.ListenerStatus, folder string, wide bool) []string {
	files := slices.Clone(l.Properties)
	for i, f := range files {
		files[i] = strings.TrimPrefix(f, folder+"/properties/")
	}
	if len(files) > 1 && !wide {
		return []string{fmt.Sprintf("%s +%d", files[0], len(files)-1)}
	}
	return files
}

func printSubnets(b *strings.Builder, st *netlab.Status, wide bool) {
	rows := [][]string{{"SUBNET", "PREFIXES"}}
	shown := st.Subnets
	if len(shown) > someSubnets && !wide {
		shown = shown[:someSubnets]
	}
	for i := range shown {
		rows = append(rows, []string{shown[i].Name, joined(shown[i].Prefixes)})
	}
	section(b, rows)
	if more := len(st.Subnets) - len(shown); more > 0 {
		fmt.Fprintf(b, "and %d more (--wide shows them)\n", more)
	}
}

// section writes a table after an empty line, unless it has only a heading.
func section(b *strings.Builder, rows [][]string) {
	if len(rows) > 1 {
		b.WriteString("\n")
		columns(b, rows, 0)
	}
}

func joined[T fmt.Stringer](all []T) string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = all[i].String()
	}
	return strings.Join(texts, " ")
}
