package command

import (
	"strings"

	"github.com/spf13/cobra"
)

// aclsCommands lists the subcommands of brokerlab acls.
func aclsCommands() []func(Env) *cobra.Command {
	return []func(Env) *cobra.Command{newACLsDiff, newACLsExpand, newACLsExplain, newACLsExport, newACLsFold, newACLsImport, newACLsLint, newACLsMatrix}
}

// newACLs is kafka-acls.sh under brokerlab's name, and the parent of what Kafka has no tool for.
func newACLs(env Env) *cobra.Command {
	c := newACLsScript(env)
	c.Use = "acls"
	c.Example = underOurName(c.Example)
	c.SuggestionsMinimumDistance = 2
	c.Args = func(c *cobra.Command, args []string) error {
		if c.Flags().NFlag() == 0 {
			return unknownCommand(c, args)
		}
		return nil // --cluster kafka-cluster
	}
	for _, add := range aclsCommands() {
		c.AddCommand(add(env))
	}
	return c
}

// underOurName writes examples of one of Kafka's scripts as those of the command that it is a link to.
func underOurName(examples string) string {
	for _, name := range []string{"acls", "configs", "features"} {
		examples = strings.ReplaceAll(examples, "kafka-"+name+".sh ", "brokerlab "+name+" ")
	}
	return examples
}
