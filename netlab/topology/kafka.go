package topology

import (
	"cmp"
	"path/filepath"
	"regexp"

	"github.com/brokerlab/brokerlab/netlab/kafkahome"
)

// ofKafka are the keys that only a node of kind kafka has.
func ofKafka(n FileNode) map[string]bool {
	return map[string]bool{"version": n.Version != "", "home": n.Home != "", "release": n.Release != ""}
}

// kafka resolves what only Apache Kafka has.
func (r *resolver) kafka(path string, n FileNode, node *Node, ids *ids) {
	r.refuse(path, Kafka, map[string]bool{"cmd": len(n.Cmd) > 0, "ports": len(n.Ports) > 0})
	r.server(path, n, node, ids)
	node.Version = cmp.Or(n.Version, kafkahome.Default)
	if err := kafkahome.CheckVersion(node.Version); err != nil {
		r.at(path+".version", "%v", err)
	}
	if n.Home != "" {
		r.home(path, n, node)
	}
	node.Release = n.Release
	if n.Release != "" && !regexp.MustCompile(`^\d{1,4}\.\d{1,4}(-IV\d{1,4})?$`).MatchString(n.Release) {
		r.at(path+".release", "%.100q is no level of metadata.version such as 4.3 or 4.4-IV1", n.Release)
	}
}

// home finds the release in a folder that the file names.
func (r *resolver) home(path string, n FileNode, node *Node) {
	if n.Version != "" {
		r.at(path+".home", "version is here, too: a folder has one version, and that is what runs")
	}
	folder := n.Home
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(r.folder, folder)
	}
	h, err := kafkahome.At(folder)
	if err != nil {
		r.at(path+".home", "%v", err)
		return
	}
	node.Home, node.Version = h.Folder, h.Version
}

// levels checks that the nodes of one cluster of Apache Kafka can come to one level of metadata.version.
func (r *resolver) levels(nodes []Node) {
	first := map[string]*Node{}
	for i := range nodes {
		n := &nodes[i]
		if n.Cluster == "" || n.Kind != Kafka {
			continue
		}
		one := first[n.Cluster]
		if one == nil {
			first[n.Cluster] = n
			continue
		}
		path := "nodes." + n.Name
		switch {
		case one.Release != n.Release:
			r.at(path+".release", "release is %q, that of %s in the same cluster is %q: a cluster is formatted at one level", n.Release, one.Name, one.Release)
		case one.Release == "" && one.Version != n.Version:
			r.at(path+".version", "version is %s, that of %s in the same cluster is %s: a cluster of several versions needs a release that all have", n.Version, one.Name, one.Version)
		}
	}
}
