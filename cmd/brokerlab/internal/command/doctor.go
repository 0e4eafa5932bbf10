//go:build linux

package command

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker"
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

// servesWidth is how wide the last column of the diagnosis is, so that a line fits a terminal.
const servesWidth = 75

func printDiagnosis(w io.Writer, d diagnosis) error {
	var text strings.Builder
	rows := [][]string{{"FEATURE", "STATE", "FOR"}}
	for _, f := range d.Features {
		state := "works"
		if !f.Works {
			state = "missing"
		}
		for i, line := range strings.Split(fold(f.For, servesWidth), "\n") {
			if i > 0 {
				f.Feature, state = "", ""
			}
			rows = append(rows, []string{f.Feature, state, line})
		}
	}
	columns(&text, rows, 0)
	for _, f := range d.Features {
		if !f.Works {
			fmt.Fprintf(&text, "\n%s\n  %s\n",
				fold(f.Feature+": "+f.Missing, helpWidth), strings.ReplaceAll(fold(f.Get, helpWidth-2), "\n", "\n  "))
		}
	}
	fmt.Fprintf(&text, "\nConnections are counted here by: %s\n", countedBy()[d.Accounting])
	_, err := io.WriteString(w, text.String())
	return err
}

// countedBy says in words what a mode of the kernel's count is.
func countedBy() map[string]string {
	return map[string]string{
		broker.KernelModeFull:     "BPF programs, exactly",
		broker.KernelModeSockDiag: "polling the socket table, as lower bounds",
		"unavailable":             "nothing",
	}
}
