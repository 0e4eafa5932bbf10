package command

import "github.com/spf13/cobra"

// aclsCommands lists the subcommands of brokerlab acls.
func aclsCommands() []func(Env) *cobra.Command {
	return []func(Env) *cobra.Command{newACLsDiff, newACLsExpand, newACLsExplain, newACLsExport, newACLsFold, newACLsImport, newACLsLint, newACLsMatrix}
}

// newACLs is kafka-acls.sh under brokerlab's name, and the parent of what Kafka has no tool for.
func newACLs(env Env) *cobra.Command {
	c := newACLsScript(env)
	c.Use = "acls"
	for _, add := range aclsCommands() {
		c.AddCommand(add(env))
	}
	return c
}
