//go:build linux

package command

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/netlab/netns"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/fleet/crew"
)

// newFleetWorker is the process that a fleet is split over when one cannot hold all its clients. Not for people.
func newFleetWorker(env Env) *cobra.Command {
	return &cobra.Command{
		Use:    "fleet-worker",
		Short:  "Hold a part of a fleet: commands on standard input, answers on standard output",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var places namespaces
			defer places.close()
			return fleet.Serve(c.Context(), env.Stdin, env.Stdout, places.resolve)
		},
	}
}

func newFleetWait(env Env) *cobra.Command {
	var o meetingOptions
	c := &cobra.Command{
		Use:   "worker --bootstrap-server host:port --topic TOPIC",
		Short: "Wait at a topic for a share of a fleet's clients, and hold them",
		Long: `Wait at a topic for a share of a fleet's clients, open and hold them, and report into the topic: run after run, until
interrupted. The cluster of the topic assigns shares to workers as it assigns partitions to a consumer group; it need not be
the cluster that the clients connect to.

The clients of a share end with its run, when the run's coordinator has gone, and when this process could not reach the
topic for half a minute. A line tells of each share that comes and goes.

Exit status: 0 interrupted; 1 the topic cannot be reached at first; later the worker
says so and comes back to it.`,
		Example: `  brokerlab fleet worker --bootstrap-server localhost:9092 --topic fleet
  brokerlab fleet worker --bootstrap-server kafka:9093 --command-config worker.properties \
      --topic fleet --name rack7`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var mu sync.Mutex // guards standard output
			options, err := o.meeting(env, func(line string) {
				mu.Lock()
				defer mu.Unlock()
				_, _ = fmt.Fprintf(env.Stdout, "%s %s\n", time.Now().UTC().Format(time.RFC3339), line) // nobody listens any more
			})
			if err != nil {
				return err
			}
			var places namespaces
			defer places.close()
			return crew.Work(c.Context(), options, places.resolve)
		},
	}
	o.flags(c)
	return c
}

// namespaces are the network namespaces that a worker's clients are in, each opened once.
type namespaces struct {
	mu   sync.Mutex // guards open
	open map[string]*netns.Handle
}

func (n *namespaces) resolve(spec fleet.SourceSpec) (fleet.Source, error) {
	if spec.Namespace == "" {
		return fleet.Loopback(spec.Prefix), nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	h := n.open[spec.Namespace]
	if h == nil {
		var err error
		if h, err = netns.Open(spec.Namespace); err != nil {
			return nil, err
		}
		if n.open == nil {
			n.open = map[string]*netns.Handle{}
		}
		n.open[spec.Namespace] = h
	}
	return inNamespace{h, spec.Prefix}, nil
}

func (n *namespaces) close() {
	for _, h := range n.open {
		_ = h.Close() // the process ends
	}
}

// inNamespace is a source in a namespace.
type inNamespace struct {
	ns     *netns.Handle
	prefix netip.Prefix
}

func (s inNamespace) Socket(family int) (int, error) { return s.ns.Socket(family) }
func (s inNamespace) Addr(i int) netip.Addr          { return fleet.Nth(s.prefix, i) }
