//go:build linux

package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/netlab"
)

func newLabCut(env Env) *cobra.Command {
	return newBetween(env, "cut", &cobra.Command{
		Short: "Let no packet pass between two parts of a lab",
		Long: `Let no packet pass between two nodes or subnets of a lab, in either direction, as if a cable between them were broken: both
run on, neither is told, and all that each has to do with others goes on. lab heal takes it back. The lab may be left out
where only one is up.`,
		Example: "  sudo brokerlab lab cut three-brokers broker2 engine\n  sudo brokerlab lab heal three-brokers broker2 engine",
	}, "cut from each other", (*netlab.Lab).Cut)
}

func newLabHeal(env Env) *cobra.Command {
	return newBetween(env, "heal", &cobra.Command{
		Short:   "Take back a lab cut",
		Long:    "Let packets pass again between two nodes or subnets of a lab that lab cut has cut from each other.",
		Example: "  sudo brokerlab lab heal three-brokers broker2 engine",
	}, "can reach each other", (*netlab.Lab).Heal)
}

// newBetween completes a command that does something between two parts of a lab.
func newBetween(env Env, verb string, c *cobra.Command, done string, do func(l *netlab.Lab, ctx context.Context, a, b string) error) *cobra.Command {
	const both = 2
	c.Use, c.Args = verb+" [FILE|NAME]"+strings.Repeat(" NODE|SUBNET", both), cobra.RangeArgs(both, both+1)
	c.RunE = func(c *cobra.Command, args []string) error {
		if err := netlab.Privileges(); err != nil {
			return err
		}
		name, err := onlyLab(args[:len(args)-both])
		if err != nil {
			return err
		}
		lab, err := openLab(name)
		if err != nil {
			return err
		}
		a, b := args[len(args)-both], args[len(args)-1]
		err = do(lab, c.Context(), a, b)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(env.Stdout, "%s and %s of lab %s %s\n", a, b, lab.Name(), done)
		return err
	}
	return c
}
