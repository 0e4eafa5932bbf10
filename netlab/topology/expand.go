package topology

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// What `brokers: N` makes.
const (
	theCluster  = "brokers" // the cluster that they are
	theEngine   = "engine"  // its engine's node, where that is ours
	maxBrokers  = 100
	engineOurs  = "embedded"
	engineKafka = Kafka
)

// expand gives f the nodes that brokers and engine stand for, and each node what defaults say of its kind. f itself stays as
// it is. What is made is placed where the file asks for it, so that a problem with it is told there.
func (r *resolver) expand(f *File) *File {
	full := *f
	full.Nodes = maps.Clone(f.Nodes)
	if full.Nodes == nil {
		full.Nodes = map[string]FileNode{}
	}
	if _, asked := r.places["brokers"]; asked || f.Brokers != 0 || f.Engine != "" {
		r.brokers(&full, asked)
	}
	for _, kind := range slices.Sorted(maps.Keys(f.Defaults)) {
		r.defaults(&full, kind, f.Defaults[kind])
	}
	return &full
}

// brokers makes the nodes that brokers (which is in the text, if asked) and engine stand for.
func (r *resolver) brokers(f *File, asked bool) {
	behind := Engine
	switch f.Engine {
	case "", engineOurs:
	case engineKafka:
		behind = Kafka
	default:
		r.at("engine", "unknown engine %q%s", f.Engine, nearest(f.Engine, []string{engineOurs, engineKafka}))
		return
	}
	switch {
	case f.Brokers == 0 && !asked:
		r.at("engine", "whose engine? Say how many brokers there are, such as brokers: 3, or give nodes of kind broker and %s the same cluster", behind)
		return
	case f.Brokers < 1 || f.Brokers > maxBrokers:
		r.at("brokers", "brokers is %d: want 1 to %d", f.Brokers, maxBrokers)
		return
	}
	for i := range f.Brokers {
		r.made(f, "brokers", Broker, fmt.Sprintf("broker%d", i+1))
		if behind == Kafka {
			r.made(f, "engine", Kafka, fmt.Sprintf("kafka%d", i+1))
		}
	}
	if behind == Engine {
		r.made(f, "brokers", Engine, theEngine)
	}
}

// made completes the node of that name, or makes it, as one of the cluster that by asks for.
func (r *resolver) made(f *File, by, kind, name string) {
	n, path := f.Nodes[name], "nodes."+name
	if n.Kind != "" && n.Kind != kind {
		r.at(path+".kind", "kind is %s: %s makes %s a node of kind %s", n.Kind, by, name, kind)
	}
	if n.Cluster != "" {
		r.at(path+".cluster", "%s makes %s a node of its own cluster", by, name)
	}
	n.Kind, n.Cluster = kind, theCluster
	f.Nodes[name] = n
	r.alias(by, path)
}

// defaults gives each node of a kind what d says and the node does not.
func (r *resolver) defaults(f *File, kind string, d FileNode) {
	path := "defaults." + kind
	if !slices.Contains(kinds(), kind) {
		r.at(path, "unknown kind %q%s", kind, nearest(kind, kinds()))
		return
	}
	for key, set := range map[string]bool{
		"kind": d.Kind != "", "addresses": len(d.Addresses) > 0, "expose": len(d.Expose) > 0, "cluster": d.Cluster != "",
	} {
		if set {
			r.at(path+"."+key, "%s cannot be that of all nodes of a kind: give it to each node", key)
		}
	}
	for name := range f.Nodes {
		if n := f.Nodes[name]; n.Kind == kind {
			f.Nodes[name] = n.orElse(&d)
			r.alias(path, "nodes."+name)
		}
	}
}

// orElse is n with what d says where n says nothing.
func (n FileNode) orElse(d *FileNode) FileNode {
	if n.Version == "" && n.Home == "" {
		n.Version, n.Home = d.Version, d.Home
	}
	n.Release, n.ConfigFile = cmp.Or(n.Release, d.Release), cmp.Or(n.ConfigFile, d.ConfigFile)
	for to, from := range map[*Strings]Strings{&n.Listeners: d.Listeners, &n.Cmd: d.Cmd} {
		if len(*to) == 0 {
			*to = from
		}
	}
	if len(n.Ports) == 0 {
		n.Ports = d.Ports
	}
	n.Config, n.Env = over(d.Config, n.Config), over(d.Env, n.Env)
	return n
}

// over is what own says, and what defaults say of keys that own lacks.
func over(defaults, own map[string]Text) map[string]Text {
	if len(defaults) == 0 {
		return own
	}
	all := maps.Clone(defaults)
	maps.Copy(all, own)
	return all
}

// alias places path, and what is below it, where from and what is below that are in the text, unless the text has it itself.
func (r *resolver) alias(from, path string) {
	more := map[string]place{}
	for at, where := range r.places {
		if rest, below := strings.CutPrefix(at, from); below && within(from, at) {
			if _, own := r.places[path+rest]; !own {
				more[path+rest] = where
			}
		}
	}
	maps.Copy(r.places, more)
}
