//go:build linux

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/netlab/kafkahome"
)

// nodeOperation is a command that does one thing to the program of one node.
type nodeOperation struct {
	verb, short, long string
	do                func(*netlab.Node, context.Context) error
}

// nodeOperations lists them in the order of --help.
func nodeOperations() []nodeOperation {
	return []nodeOperation{
		{
			"start", "Start a node's program", "Start the program of a node, unless it runs, and wait until it listens on all its ports.",
			(*netlab.Node).Start,
		},
		{
			"stop", "Ask a node's program to end", "Ask the program of a node to end (SIGTERM) and wait until it has. What it leaves running is killed.",
			(*netlab.Node).Stop,
		},
		{
			"kill", "Kill a node's program",
			"End the program of a node and all its children at once (SIGKILL), as a crash would. Its network and its data stay.",
			(*netlab.Node).Kill,
		},
		{
			"restart", "Stop a node's program and start it again",
			"Ask the program of a node to end (SIGTERM), start it again, and wait until it listens on all its ports. A program that\nwas killed or has ended is started.",
			(*netlab.Node).Restart,
		},
	}
}

func newNodeOperation(env Env, op nodeOperation) *cobra.Command {
	var wait time.Duration
	var other release
	c := &cobra.Command{
		Use:     op.verb + " [FILE|NAME] NODE",
		Short:   op.short,
		Long:    op.long + " The lab may be left out where only one is up.",
		Example: "  sudo brokerlab lab " + op.verb + " quickstart broker1",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			if other.asked() {
				kafka, err := other.get(c.Context(), env)
				if err != nil {
					return err
				}
				op.do = func(n *netlab.Node, ctx context.Context) error { return n.RestartKafka(ctx, kafka) }
			}
			ctx, cancel := context.WithTimeoutCause(c.Context(), wait, fmt.Errorf("not done within %v (--wait)", wait))
			defer cancel()
			return operate(ctx, env, op, args)
		},
	}
	c.Flags().DurationVar(&wait, "wait", 3*time.Minute, "how long it may take")
	if op.verb == "restart" {
		c.Long += "\n\n--version and --home are for nodes of kind kafka, which run another release from then on and keep their data: restarted\n" +
			"one after another, they make a rolling upgrade. A version that is missing is fetched with Maven."
		c.Example += "\n  sudo brokerlab lab restart rolling kafka1 --version 4.4.0"
		c.Flags().StringVar(&other.version, "version", "", "the `VERSION` of Kafka to run from now on")
		c.Flags().StringVar(&other.home, "home", "", "a `FOLDER` with a release of Kafka to run from now on")
		c.MarkFlagsMutuallyExclusive("version", "home")
	}
	return c
}

// release is the release of Kafka that somebody asks for, by its version or by where it is.
type release struct{ version, home string }

func (r release) asked() bool { return r != release{} }

// get finds the release, or fetches it.
func (r release) get(ctx context.Context, env Env) (kafkahome.Home, error) {
	if r.home != "" {
		return kafkahome.At(r.home)
	}
	return haveKafka(ctx, env, r.version)
}

func operate(ctx context.Context, env Env, op nodeOperation, args []string) error {
	lab, node, err := openNode(args)
	if err != nil {
		return err
	}
	p := newProgress(env.Stderr)
	p.set(op.verb + " " + node.Name)
	err = op.do(node, ctx)
	p.stop()
	if err != nil {
		return err
	}
	st, err := node.Status(ctx)
	if err != nil {
		return err
	}
	text := st.State
	switch {
	case st.PID != 0:
		text += fmt.Sprintf(", pid %d", st.PID)
	case st.Reason != "":
		text += " (" + st.Reason + ")"
	}
	_, err = io.WriteString(env.Stdout, "Node "+node.Name+" of lab "+lab.Name()+": "+text+"\n")
	return err
}

// openNode finds the node that [FILE|NAME] NODE means.
func openNode(args []string) (*netlab.Lab, *netlab.Node, error) {
	if err := netlab.Privileges(); err != nil {
		return nil, nil, err
	}
	name, err := onlyLab(args[:len(args)-1])
	if err != nil {
		return nil, nil, err
	}
	lab, err := openLab(name)
	if err != nil {
		return nil, nil, err
	}
	node, err := lab.Node(args[len(args)-1])
	return lab, node, err
}

// onlyLab is the lab that args name, or the only one that is up.
func onlyLab(args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	names, err := netlab.List(netlab.Options{})
	if err != nil {
		return "", err
	}
	if len(names) != 1 {
		return "", errors.New("which lab?" + upLabs())
	}
	return names[0], nil
}
