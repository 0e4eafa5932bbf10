//go:build linux

package command

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/netlab"
)

func newLabExec(env Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "exec [FILE|NAME] NODE|SUBNET -- COMMAND [ARG …]",
		Short: "Run a program in the network of a node or subnet",
		Long: `Run a program in the network namespace of a node or subnet, where it finds the nodes by name; there is no
DNS. A lab's router is called router. The lab may be left out where only one is up.

Exit status: that of the program; 126 when it cannot be run, 127 when it is not found, 128 and the signal's number
when a signal ended it.`,
		Example: "  sudo brokerlab lab exec quickstart office -- kcat -L -b broker1:9092\n  sudo brokerlab lab exec broker1 -- ss -ltn",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			where, program := splitExec(args)
			return labExec(c.Context(), env, where, program)
		},
	}
	c.Flags().SetInterspersed(false) // flags of the program are the program's
	return c
}

// splitExec tells the place from the program: by the first --, or else by how many labs there are.
func splitExec(args []string) (where, program []string) {
	for i, arg := range args[:min(3, len(args))] {
		if arg == "--" {
			return args[:i], args[i+1:]
		}
	}
	names, err := netlab.List(netlab.Options{})
	if err == nil && len(names) == 1 && args[0] != names[0] && !isFile(args[0]) {
		return args[:1], args[1:]
	}
	n := min(2, len(args))
	return args[:n], args[n:]
}

func labExec(ctx context.Context, env Env, where, program []string) error {
	if err := netlab.Privileges(); err != nil {
		return &ExitError{Code: 126, Err: err}
	}
	if len(where) == 1 {
		name, err := onlyLab(nil)
		if err != nil {
			return &ExitError{Code: 126, Err: err}
		}
		where = []string{name, where[0]}
	}
	if len(where) != 2 || len(program) == 0 {
		return &ExitError{Code: 126, Err: errors.New("want a lab, a node or subnet, and after -- a command")}
	}
	lab, err := openLab(where[0])
	if err != nil {
		return &ExitError{Code: 126, Err: err}
	}
	if isTerminal(env.Stdout) { // the terminal tells the program itself; when it ends is the program's business
		ctx = context.WithoutCancel(ctx)
	}
	err = lab.Exec(ctx, where[1], netlab.Command{Args: program, Stdin: env.Stdin, Stdout: env.Stdout, Stderr: env.Stderr})
	return exitOf(err)
}

// exitOf passes a program's exit status on, in the way of shells.
func exitOf(err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit):
		return &ExitError{Code: statusOf(exit)}
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return &ExitError{Code: 127, Err: err}
	}
	return &ExitError{Code: 126, Err: err}
}

// statusOf is a program's exit status as shells give it.
func statusOf(exit *exec.ExitError) int {
	if w, ok := exit.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return exit.ExitCode()
}
