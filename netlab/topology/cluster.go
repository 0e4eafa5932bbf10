package topology

import (
	"slices"
	"strconv"
	"strings"
)

// Ports of a node of kind engine.
const (
	EngineMetadataPort = 9191 // the metadata log
	EnginePort         = 9192 // the engine's bootstrap; its node N listens on the N-th port after it
)

// ids are the values of node.id in use, apart for the faces of each cluster and for what is behind them: a face has the
// node.id of the node that it stands for. All others share one numbering.
type ids struct {
	faced map[string]bool              // clusters that have faces
	taken map[string]map[string]string // by numbering: node.id, and whose it is
}

func idsOf(f *File) *ids {
	all := &ids{faced: map[string]bool{}, taken: map[string]map[string]string{}}
	for name := range f.Nodes {
		if n := f.Nodes[name]; n.Kind == Broker && n.Cluster != "" {
			all.faced[n.Cluster] = true
		}
	}
	return all
}

// among are the values taken in the numbering that n belongs to.
func (i *ids) among(n *Node) map[string]string {
	numbering := ""
	if i.faced[n.Cluster] {
		numbering = n.Kind + " " + n.Cluster
	}
	if i.taken[numbering] == nil {
		i.taken[numbering] = map[string]string{}
	}
	return i.taken[numbering]
}

// engine resolves what only an engine has: next to nothing, since its brokers say how many nodes it has.
func (r *resolver) engine(path string, n FileNode) {
	r.refuse(path, Engine, ofKafka(n), map[string]bool{
		"cmd": len(n.Cmd) > 0, "env": len(n.Env) > 0, "ports": len(n.Ports) > 0, "expose": len(n.Expose) > 0,
		"config": len(n.Config) > 0, "config-file": n.ConfigFile != "", "listeners": len(n.Listeners) > 0,
	})
	if n.Cluster == "" {
		r.at(path, "cluster is missing: the one that the brokers belong to which keep their records here")
	}
}

// clusters checks that each broker of a cluster is the face of something, and gives engines their ports.
func (r *resolver) clusters(nodes []Node) {
	lab := &Lab{Nodes: nodes}
	for i := range nodes {
		n := &nodes[i]
		path := "nodes." + n.Name
		switch {
		case n.Cluster == "":
		case n.Kind == Broker:
			r.face(path, lab, n)
		case n.Kind == Engine:
			faces := lab.With(n, Broker)
			if len(faces) == 0 {
				r.at(path+".cluster", "cluster %s has no broker that would keep its records here", n.Cluster)
			}
			others := slices.DeleteFunc(lab.With(n, Engine, Kafka), func(o *Node) bool { return o.Name == n.Name })
			if len(others) > 0 {
				r.at(path+".cluster", "cluster %s has an engine already: %s", n.Cluster, others[0].Name)
			}
			n.Ports = append(n.Ports, EngineMetadataPort)
			for p := range len(faces) + 1 {
				n.Ports = append(n.Ports, EnginePort+uint16(p))
			}
		}
	}
}

// face checks that the engine has the node that a broker of a cluster is the face of.
func (r *resolver) face(path string, lab *Lab, n *Node) {
	if n.Config[EngineServers] != "" { // it is elsewhere, and says itself what it has
		return
	}
	ours, kafka := lab.With(n, Engine), lab.With(n, Kafka)
	if len(ours)+len(kafka) == 0 {
		r.at(path+".cluster", "cluster %s has neither a node of kind engine nor nodes of kind kafka: nothing that its brokers could keep records in", n.Cluster)
		return
	}
	id := n.Config["node.id"]
	var has []string
	for _, k := range kafka {
		has = append(has, k.Config["node.id"])
	}
	if len(ours) > 0 {
		for i := range lab.With(n, Broker) {
			has = append(has, strconv.Itoa(i+1))
		}
	}
	if !slices.Contains(has, id) {
		r.at(path, "node.id is %s: a broker is the face of the engine's node with its node.id, and that has %s", id, strings.Join(has, ", "))
	}
}
