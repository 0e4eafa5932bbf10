//go:build linux

package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker"
)

// newDocs prints the references in docs/ from the code, so that they cannot drift from it. Hidden: it is for the makefile.
func newDocs(env Env) *cobra.Command {
	c := &cobra.Command{Use: "docs", Short: "Print the references of docs/", Hidden: true}
	c.AddCommand(
		&cobra.Command{
			Use: "commands", Short: "Print docs/commands.md", Args: cobra.NoArgs,
			RunE: func(c *cobra.Command, _ []string) error { return commandReference(env.Stdout, c.Root()) },
		},
		&cobra.Command{
			Use: "config", Short: "Print docs/config.md", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return broker.ConfigReference(env.Stdout) },
		},
	)
	return c
}

// commandReference writes the help of root and of all that is below it.
func commandReference(w io.Writer, root *cobra.Command) error {
	_, err := fmt.Fprint(w, "# Commands\n\nPrinted from the code by `make docs`.\n")
	if err != nil {
		return err
	}
	return describe(w, root)
}

func describe(w io.Writer, c *cobra.Command) error {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return nil
	}
	c.InitDefaultHelpFlag()
	about := c.Long
	if about == "" {
		about = c.Short
	}
	fmt.Fprintf(w, "\n## %s\n\n%s\n", c.CommandPath(), strings.TrimSpace(about))
	if c.Runnable() && !c.HasSubCommands() {
		fmt.Fprintf(w, "\n```\n%s\n```\n", c.UseLine())
	}
	if c.Example != "" {
		fmt.Fprintf(w, "\nExample:\n\n```\n%s\n```\n", strings.Trim(c.Example, "\n"))
	}
	if flags := c.NonInheritedFlags().FlagUsagesWrapped(100); flags != "" {
		fmt.Fprintf(w, "\n```\n%s\n```\n", strings.TrimRight(flags, "\n"))
	}
	for _, sub := range c.Commands() {
		if err := describe(w, sub); err != nil {
			return err
		}
	}
	return nil
}
