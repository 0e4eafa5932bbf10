//go:build linux

package command

import (
	"cmp"
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/netlab"
)

func newLabList(env Env) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use:   "list",
		Short: "List the labs of this machine",
		Long: `List the labs of this machine: the name of each, how it is, its nodes, since when it is up, and where its files are.
lab inspect shows one of them.`,
		Example: "  sudo brokerlab lab list\n  sudo brokerlab lab list --format json",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return labList(c.Context(), env, f) },
	}
	addFormat(c, &f)
	return c
}

// jsonLab is a lab in lab list with --format json. What is not known of one that goes up or down is empty or null.
type jsonLab struct {
	Name    string   `json:"name"`
	State   string   `json:"state"` // building, up, failed or ownerless
	Nodes   []string `json:"nodes"`
	Subnets []string `json:"subnets"`
	Since   *string  `json:"since"`
	Folder  string   `json:"folder"`
	Error   string   `json:"error,omitempty"`
}

func labList(ctx context.Context, env Env, f format) error {
	if err := netlab.Privileges(); err != nil {
		return err
	}
	all, err := inspectAll(ctx)
	if err != nil {
		return err
	}
	if f != formatJSON {
		return printAll(env.Stdout, all)
	}
	labs := make([]jsonLab, len(all))
	for i, st := range all {
		labs[i] = jsonLab{Name: st.Name, State: st.State, Nodes: nodeNames(st), Subnets: []string{}, Folder: st.Folder, Error: st.Error}
		for j := range st.Subnets {
			labs[i].Subnets = append(labs[i].Subnets, st.Subnets[j].Name)
		}
		if !st.Since.IsZero() {
			labs[i].Since = timestamp(st.Since.UnixMilli())
		}
	}
	return printJSON(env.Stdout, labs)
}

// inspectAll tells how each lab of this machine is.
func inspectAll(ctx context.Context) ([]*netlab.Status, error) {
	names, err := netlab.List(netlab.Options{})
	if err != nil {
		return nil, err
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
			return nil, err
		}
		all = append(all, st)
	}
	return all, nil
}

// printAll prints a row for each lab.
func printAll(w io.Writer, all []*netlab.Status) error {
	if len(all) == 0 {
		_, err := io.WriteString(w, "No lab is up.\n")
		return err
	}
	rows := [][]string{{"LAB", "STATE", "NODES", "SUBNETS", "SINCE", "FOLDER"}}
	const nodes = 2 // the column that is cut where the table is too wide
	for _, st := range all {
		since := unknown
		if !st.Since.IsZero() {
			since = st.Since.Format(time.DateTime)
		}
		rows = append(rows, []string{
			st.Name, st.State, cmp.Or(strings.Join(nodeNames(st), " "), unknown), strconv.Itoa(len(st.Subnets)), since, cmp.Or(st.Folder, unknown),
		})
	}
	return printTable(w, rows, nodes)
}

func nodeNames(st *netlab.Status) []string {
	names := make([]string, len(st.Nodes))
	for i := range st.Nodes {
		names[i] = st.Nodes[i].Name
	}
	return names
}
