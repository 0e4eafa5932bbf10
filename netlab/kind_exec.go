package netlab

import (
	"maps"
	"slices"

	"github.com/brokerlab/brokerlab/netlab/topology"
)

// execKind runs any program.
type execKind struct{}

func (execKind) prepare(home, *state, *topology.Node, string) error { return nil }

func (execKind) command(_ home, _ *state, n *topology.Node) (program, error) {
	return program{args: n.Cmd, env: environment(n)}, nil
}

// environment is what the lab file adds to that of a node's program.
func environment(n *topology.Node) []string {
	var env []string
	for _, key := range slices.Sorted(maps.Keys(n.Env)) {
		env = append(env, key+"="+n.Env[key])
	}
	return env
}
