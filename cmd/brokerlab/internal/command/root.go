// Package command is brokerlab's command line: one file a subcommand, each an options struct, a constructor and a run
// function. Commands wire the other packages together and decide nothing about connections themselves.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"
)

// Env is what a command may touch of the process around it.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer

	args []string // those of the command itself
}

// ExitError ends the process with a code of its own; Err may be nil where everything was said already.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// usage is the error of a command line that cannot be meant.
func usage(text string) error { return &ExitError{Code: 2, Err: errors.New(text)} }

// Run executes the command line args (args[0] is the name the binary was called by) and returns the exit code:
// 0 done, 1 failed, 2 could not run; commands document codes of their own.
func Run(ctx context.Context, args []string, env Env) int {
	name := filepath.Base(args[0])
	env.args = args[1:]
	if _, script := scripts()[name]; !script && len(env.args) > 0 {
		env.args = env.args[1:]
	}
	root := newRoot(env, name)
	root.SetArgs(args[1:])
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code := 1
	if exit, ok := errors.AsType[*ExitError](err); ok {
		code, err = exit.Code, exit.Err
	}
	if err != nil {
		fmt.Fprintf(env.Stderr, "brokerlab: %v\n", err)
	}
	return code
}

// newRoot is the command for name: a link named like one of Kafka's scripts is that script.
func newRoot(env Env, name string) *cobra.Command {
	if script, ok := scripts()[name]; ok {
		return finish(script(env), env)
	}
	root := &cobra.Command{
		Use:     "brokerlab",
		Short:   "Who may connect to Kafka, from where, how many, and who is connected right now",
		Version: version(),
		Example: `  brokerlab connections list --bootstrap-server localhost:9092
  brokerlab run --list`,
	}
	for _, add := range commands() {
		root.AddCommand(add(env))
	}
	styleHelp(root)
	return finish(root, env)
}

func finish(c *cobra.Command, env Env) *cobra.Command {
	c.SilenceUsage, c.SilenceErrors = true, true
	c.SetIn(env.Stdin)
	c.SetOut(env.Stdout)
	c.SetErr(env.Stderr)
	c.SetUsageTemplate(usageTemplate(c))
	return c
}

// commands lists the subcommands: those that only talk to brokers, and those of this system.
func commands() []func(Env) *cobra.Command {
	return append([]func(Env) *cobra.Command{newACLs, newClients, newCluster, newConfigs, newConnections, newFeatures, newKafka, newLimits, newVersion}, systemCommands()...)
}

// scripts maps the name of one of Kafka's scripts to the command that a link of that name is.
func scripts() map[string]func(Env) *cobra.Command {
	return map[string]func(Env) *cobra.Command{
		"kafka-acls.sh":               newACLsScript,
		"kafka-client-connections.sh": newConnectionsScript,
		"kafka-configs.sh":            newConfigsScript,
		"kafka-features.sh":           newFeaturesScript,
	}
}
