package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/netlab"
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
port all have the router's address.`,
		Example: "  sudo brokerlab lab inspect quickstart\n  sudo brokerlab lab inspect --all --format json",
		Args:    oneOrAll(&o.all),
		RunE:    func(c *cobra.Command, args []string) error { return labInspect(c.Context(), env, args, o) },
	}
	c.Flags().BoolVar(&o.all, "all", false, "show all labs of this machine")
	c.Flags().BoolVar(&o.wide, "wide", false, "show all subnets and all properties files")
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
	names, err := netlab.List(netlab.Options{})
	if err != nil {
		return err
	}
	all := make([]*netlab.Status, 0, len(names))
	for _, name := range names {
		lab, err := netlab.Open(name, netlab.Options{})
		if err != nil { // going up or down at the moment, or killed at its very beginning
			all = append(all, &netlab.Status{Name: name, State: netlab.LabOwnerless, Error: err.Error()})
			continue
		}
		st, err := inspect(ctx, lab)
		if err != nil {
			return err
		}
		all = append(all, st)
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

func printAll(w io.Writer, all []*netlab.Status) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "No lab is up.")
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "LAB\tSTATE\tNODES\tSUBNETS\tSINCE\tFOLDER")
	for _, st := range all {
		since := "-"
		if !st.Since.IsZero() {
			since = st.Since.Format(time.DateTime)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t%s\t%s\n", st.Name, st.State, len(st.Nodes), len(st.Subnets), since, st.Folder)
	}
	return t.Flush()
}

func printStatus(w io.Writer, st *netlab.Status, wide bool) error {
	fmt.Fprintf(w, "Lab %s: %s since %s, owner %d, folder %s\n", st.Name, st.State, st.Since.Format(time.DateTime), st.OwnerPID, st.Folder)
	if st.State == netlab.LabOwnerless {
		fmt.Fprintf(w, "Its owner is gone: nodes, exposed ports and counts may not work. Bring it up again, or take it down.\n")
	}
	if st.Error != "" {
		fmt.Fprintf(w, "Error: %s\n", st.Error)
	}
	if st.Kernel != "" {
		fmt.Fprintf(w, "Kernel counts: %s\n", st.Kernel)
	}
	for _, s := range st.Skipped {
		fmt.Fprintf(w, "Without %s %s: %s\n", s.Name, s.What, s.Why)
	}
	if err := printNodes(w, st, wide); err != nil {
		return err
	}
	return printSubnets(w, st, wide)
}

func printNodes(w io.Writer, st *netlab.Status, wide bool) error {
	if len(st.Nodes) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nNODE\tKIND\tSTATE\tPID\tADDRESSES\tLOG")
	exposed := false
	for i := range st.Nodes {
		n := &st.Nodes[i]
		state := n.State
		if n.Reason != "" {
			state += " (" + n.Reason + ")"
		}
		exposed = exposed || len(n.Exposed) > 0
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", n.Name, n.Kind, state, n.PID, joined(n.Addresses), n.Log)
	}
	fmt.Fprintln(t, "\nLISTENER\tNODE\tPROTOCOL\tADVERTISED\tCLIENT PROPERTIES")
	for i := range st.Nodes {
		n := &st.Nodes[i]
		for _, l := range n.Listeners {
			files := l.Properties
			if len(files) > 1 && !wide {
				files = files[:1]
			}
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", l.Name, n.Name, l.Protocol, l.Advertised, strings.Join(files, " "))
		}
		for _, p := range n.Exposed {
			if len(n.Listeners) == 0 {
				fmt.Fprintf(t, "-\t%s\t-\t127.0.0.1:%d\t-\n", n.Name, p)
			}
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if exposed {
		_, err := fmt.Fprintf(w, "Clients of exposed ports (127.0.0.1) have the router's address: %s.\n", st.Router[0])
		return err
	}
	return nil
}

func printSubnets(w io.Writer, st *netlab.Status, wide bool) error {
	if len(st.Subnets) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\nSUBNET\tPREFIXES")
	shown := st.Subnets
	if len(shown) > someSubnets && !wide {
		shown = shown[:someSubnets]
	}
	for i := range shown {
		fmt.Fprintf(t, "%s\t%s\n", shown[i].Name, joined(shown[i].Prefixes))
	}
	if more := len(st.Subnets) - len(shown); more > 0 {
		fmt.Fprintf(t, "and %d more\t(--wide shows them)\n", more)
	}
	return t.Flush()
}

func joined[T fmt.Stringer](all []T) string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = all[i].String()
	}
	return strings.Join(texts, " ")
}
