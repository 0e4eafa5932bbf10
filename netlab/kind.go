package netlab

import (
	"fmt"

	"github.com/brokerlab/brokerlab/netlab/topology"
)

// kind says how nodes of one kind start.
type kind interface {
	// prepare writes what the node's program reads, once for the life of the lab.
	prepare(h home, s *state, n *topology.Node, kernel string) error
	// command is the program and its arguments, and what is added to its environment.
	command(h home, s *state, n *topology.Node) (args, env []string)
}

// kindOf finds the kind by its name. A new kind is a file kind_NAME.go and a line here.
func kindOf(name string) (kind, error) {
	kinds := map[string]kind{
		topology.Broker: brokerKind{},
		topology.Exec:   execKind{},
	}
	k, ok := kinds[name]
	if !ok {
		return nil, fmt.Errorf("node kind %q is not known to this version", name)
	}
	return k, nil
}
