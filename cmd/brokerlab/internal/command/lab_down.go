//go:build linux

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/netlab"
)

func newLabDown(env Env) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "down FILE|NAME",
		Short: "Remove a lab, with everything that runs in it",
		Long: `Remove a lab: its processes, namespaces, links, cgroups, mounts and files. It does not matter what of the lab is
still alive. A lab that is not there is no error.`,
		Example: "  sudo brokerlab lab down quickstart\n  sudo brokerlab lab down --all",
		Args:    oneOrAll(&all),
		RunE:    func(c *cobra.Command, args []string) error { return labDown(c.Context(), env, args, all) },
	}
	c.Flags().BoolVar(&all, "all", false, "remove all labs of this machine")
	return c
}

// oneOrAll wants one argument, or none and --all.
func oneOrAll(all *bool) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case *all && len(args) > 0:
			return errors.New("--all takes no lab")
		case !*all && len(args) != 1:
			return errors.New("want one lab file or lab name, or --all")
		}
		return nil
	}
}

func labDown(ctx context.Context, env Env, args []string, all bool) error {
	if err := netlab.Privileges(); err != nil {
		return err
	}
	names := []string{""}
	var err error
	if all {
		names, err = netlab.List(netlab.Options{})
	} else {
		names[0], err = labName(args[0])
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("not down within a minute"))
	defer cancel()
	p := newProgress(env.Stderr)
	var failed error
	var said strings.Builder
	for _, name := range names {
		p.set("taking down " + name)
		err = netlab.Down(ctx, name, netlab.Options{Progress: p.set})
		switch {
		case errors.Is(err, netlab.ErrNoLab):
			fmt.Fprintf(&said, "Lab %s is not there.\n", name)
		case err != nil:
			failed = errors.Join(failed, err)
		default:
			fmt.Fprintf(&said, "Lab %s is gone.\n", name)
		}
	}
	if len(names) == 0 {
		said.WriteString("No lab is up.\n")
	}
	p.stop()
	_, err = io.WriteString(env.Stdout, said.String())
	return errors.Join(failed, err)
}
