//go:build linux

package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/netlab/topology"
)

func newLabValidate(env Env) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a lab file, with every problem at its line and column",
		Long: `Check a lab file without building anything; needs no root. With --format json it prints the lab as it would be
built, every default applied.

Exit status: 0 when the file can be built, 2 when it is wrong.`,
		Example: "  brokerlab lab validate examples/quickstart.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			lab, err := topology.Load(args[0])
			if err != nil {
				return &ExitError{Code: 2, Err: fmt.Errorf("lab file cannot be used:\n%w", err)}
			}
			if f == formatJSON {
				return printJSON(env.Stdout, lab)
			}
			_, err = fmt.Fprintf(env.Stdout, "%s: lab %s, %s, %s\n", args[0], lab.Name, plural(len(lab.Nodes), "node"), plural(len(lab.Subnets), "subnet"))
			return err
		},
	}
	addFormat(c, &f)
	return c
}
