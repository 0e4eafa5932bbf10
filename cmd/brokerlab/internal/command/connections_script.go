package command

import (
	"errors"

	"github.com/spf13/cobra"
)

// newConnectionsScript is KIP-1329's kafka-client-connections.sh, with exactly its command line.
func newConnectionsScript(env Env) *cobra.Command {
	o := connectionsOptions{format: formatTable, script: true}
	var list bool
	c := &cobra.Command{
		Use:   "kafka-client-connections.sh --bootstrap-server host:port --list",
		Short: "This tool lists the client connections of every broker of a cluster.",
		Example: `  kafka-client-connections.sh --bootstrap-server localhost:9092 --list
  kafka-client-connections.sh --bootstrap-server localhost:9092 --list --principal User:ANONYMOUS`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !list {
				return errors.New("command must include exactly one action: --list")
			}
			return runConnectionsList(c, env, &o)
		},
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	addBootstrap(c, &o.bootstrapOptions)
	addListFilters(c, &o)
	c.Flags().BoolVar(&list, "list", false, "list the connections")
	return c
}
