//go:build linux

package command

import "github.com/spf13/cobra"

func newBench(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:     "bench",
		Short:   "Measure brokers of any make",
		Example: `  brokerlab bench connections --bootstrap-server localhost:9092 --max 1000`,
		Args:    cobra.NoArgs,
	}
	c.AddCommand(newBenchConnections(env))
	return c
}
