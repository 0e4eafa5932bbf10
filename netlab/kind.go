package netlab

import (
	"fmt"

	"github.com/brokerlab/brokerlab/netlab/topology"
)

// kind says how nodes of one kind start.
type kind interface {
	// prepare writes what the node's program reads: once for the life of the lab, and again when another version of it is to
	// run.
	prepare(h home, s *state, n *topology.Node, kernel string) error
	// command is the node's program.
	command(h home, s *state, n *topology.Node) (program, error)
}

// program is what a node runs, and how to see that it serves.
type program struct {
	args []string
	env  []string // added to the owner's environment
	// before, unless nil, gives programs that run one after another before each start, in the node's network and cgroup. Each
	// must end with 0.
	before func() ([][]string, error)
	// says is what the program prints once it serves. Without it a program serves once it listens on all its ports.
	says string
}

// kindOf finds the kind by its name. A new kind is a file kind_NAME.go and a line here.
func kindOf(name string) (kind, error) {
	kinds := map[string]kind{
		topology.Broker: brokerKind{},
		topology.Engine: engineKind{},
		topology.Kafka:  kafkaKind{},
		topology.Exec:   execKind{},
	}
	k, ok := kinds[name]
	if !ok {
		return nil, fmt.Errorf("node kind %q is not known to this version", name)
	}
	return k, nil
}
