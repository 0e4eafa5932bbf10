//go:build linux

package command

import "github.com/spf13/cobra"

func newBench(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure brokers of any make",
		Args:  cobra.NoArgs,
	}
	c.AddCommand(newBenchConnections(env))
	return c
}
