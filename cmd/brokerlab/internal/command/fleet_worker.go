//go:build linux

package command

import (
	"net/netip"
	"sync"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/netlab/netns"
	"github.com/brokerlab/brokerlab/scenarios/fleet"
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
