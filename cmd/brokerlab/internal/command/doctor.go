package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/internal/kernel"
)

// exitDegraded is doctor's exit code when something is missing.
const exitDegraded = 3

func newDoctor(env Env) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Try what this kernel and these privileges allow",
		Long: `Try every kernel feature that brokerlab can use, and say what is missing, what for, and how to get it.

Nothing is asked by version: programs are loaded and attached, sockets and namespaces made, and taken away again.
What is missing takes something away, it stops nothing: without privileges connections are counted from the socket
table, as lower bounds, and every number says so. The environment variable ` + kernel.EnvOff + ` names features,
separated by commas, that are not to be used.

Exit status: 0 everything works, 3 something is missing.`,
		Example: `  brokerlab doctor
  brokerlab doctor --format json
  ` + kernel.EnvOff + `=seeding brokerlab doctor`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runDoctor(c.Context(), env, f) },
	}
	addFormat(c, &f)
	return c
}

// finding is one feature in the JSON document.
type finding struct {
	Feature string `json:"feature"`
	Works   bool   `json:"works"`
	For     string `json:"for"`
	Missing string `json:"missing,omitempty"` // what does not work
	Get     string `json:"get,omitempty"`     // how to get it
}

// diagnosis is the JSON document.
type diagnosis struct {
	Accounting string    `json:"accounting"` // how connections are counted here: full, sock_diag or unavailable
	Features   []finding `json:"features"`
}

func runDoctor(ctx context.Context, env Env, f format) error {
	off, err := kernel.FromEnv()
	if err != nil {
		return &ExitError{Code: 2, Err: err}
	}
	d, degraded := diagnose(kernel.Probe(ctx, off))
	if f == formatJSON {
		err = printJSON(env.Stdout, d)
	} else {
		err = printDiagnosis(env.Stdout, d)
	}
	if err != nil {
		return err
	}
	if degraded {
		return &ExitError{Code: exitDegraded}
	}
	return nil
}

func diagnose(statuses []kernel.Status) (d diagnosis, degraded bool) {
	works := map[kernel.Feature]bool{}
	for _, s := range statuses {
		one := finding{Feature: string(s.Feature), Works: s.Err == nil, For: s.Serves, Get: s.Get}
		if s.Err != nil {
			one.Missing, degraded = s.Err.Error(), true
		}
		works[s.Feature] = one.Works
		d.Features = append(d.Features, one)
	}
	switch {
	case works[kernel.Accounting]:
		d.Accounting = "full"
	case works[kernel.SockDiag]:
		d.Accounting = "sock_diag"
	default:
		d.Accounting = "unavailable"
	}
	return d, degraded
}

func printDiagnosis(w io.Writer, d diagnosis) error {
	var text strings.Builder
	rows := [][]string{{"FEATURE", "STATE", "FOR"}}
	for _, f := range d.Features {
		state := "works"
		if !f.Works {
			state = "missing"
		}
		rows = append(rows, []string{f.Feature, state, f.For})
	}
	columns(&text, rows, 0)
	for _, f := range d.Features {
		if !f.Works {
			fmt.Fprintf(&text, "\n%s: %s\n  %s\n", f.Feature, f.Missing, f.Get)
		}
	}
	fmt.Fprintf(&text, "\nConnections are counted here by: %s\n", map[string]string{
		"full":        "BPF programs, exactly",
		"sock_diag":   "polling the socket table, as lower bounds",
		"unavailable": "nothing",
	}[d.Accounting])
	_, err := io.WriteString(w, text.String())
	return err
}

// columns appends rows of cells as a table; flags are tabwriter's.
func columns(text *strings.Builder, rows [][]string, flags uint) {
	t := tabwriter.NewWriter(text, 0, 0, 2, ' ', flags)
	for _, r := range rows {
		line := strings.Join(r, "\t")
		if flags&tabwriter.AlignRight != 0 {
			line += "\t" // what is not ended is not aligned
		}
		_, _ = io.WriteString(t, line+"\n") // a builder takes everything
	}
	_ = t.Flush()
}
