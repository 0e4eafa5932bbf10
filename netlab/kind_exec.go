package netlab

import "github.com/brokerlab/brokerlab/netlab/topology"

// execKind runs any program.
type execKind struct{}

func (execKind) prepare(home, *state, *topology.Node, string) error { return nil }

func (execKind) command(_ home, _ *state, n *topology.Node) (args, env []string) {
	for key, value := range n.Env {
		env = append(env, key+"="+value)
	}
	return n.Cmd, env
}
