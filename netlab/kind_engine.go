package netlab

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/brokerlab/brokerlab/netlab/topology"
)

// engineKind runs this binary's engine in a process of its own, for the brokers of one cluster: what they keep their records
// and their metadata in. Only they can reach it (see [fence]).
type engineKind struct{}

func (engineKind) prepare(home, *state, *topology.Node, string) error { return nil }

func (engineKind) command(h home, s *state, n *topology.Node) (program, error) {
	faces := s.Lab.With(n, topology.Broker)
	return program{args: []string{
		s.Binary, "engine", "--nodes", strconv.Itoa(len(faces)),
		"--listen", engineServer(s.Lab, n, topology.EnginePort), "--metadata", engineServer(s.Lab, n, topology.EngineMetadataPort),
		"--data", h.path("nodes", n.Name, "data"),
	}}, nil
}

// engineServer is where a port of an engine's node is: at an IPv4 address, unless one of the brokers has none.
func engineServer(lab *topology.Lab, n *topology.Node, port uint16) string {
	v4 := func(n *topology.Node) bool { return n.Addr(false).IsValid() }
	faces := lab.With(n, topology.Broker)
	a := n.Addr(true)
	if v4(n) && !slices.ContainsFunc(faces, func(f *topology.Node) bool { return !v4(f) }) || !a.IsValid() {
		a = n.Addr(false)
	}
	return netip.AddrPortFrom(a, port).String()
}

// engineConfig is what a broker of a cluster is told of its engine.
func (h home) engineConfig(lab *topology.Lab, n *topology.Node) map[string]string {
	if n.Cluster == "" || n.Config[topology.EngineServers] != "" {
		return nil
	}
	if engines := lab.With(n, topology.Engine); len(engines) > 0 {
		return map[string]string{
			topology.EngineServers:       engineServer(lab, engines[0], topology.EnginePort),
			"metadata.bootstrap.servers": engineServer(lab, engines[0], topology.EngineMetadataPort),
		}
	}
	return h.kafkaAsEngine(lab, n)
}

// kafkaAsEngine is what a broker is told of nodes of Apache Kafka that it is a face of: a listener that all of them have, and
// who it is there, one of their super users. The metadata log is a topic of theirs unless somebody says otherwise.
func (h home) kafkaAsEngine(lab *topology.Lab, n *topology.Node) map[string]string {
	kafka := lab.With(n, topology.Kafka)
	var best topology.Listener
	var servers []string
	for _, protocol := range []string{"SSL", "SASL_SSL", "SASL_PLAINTEXT", "PLAINTEXT"} {
		servers = nil
		for _, k := range kafka {
			i := slices.IndexFunc(k.Listeners, func(l topology.Listener) bool { return l.Protocol == protocol })
			if i < 0 {
				break
			}
			best = k.Listeners[i]
			servers = append(servers, net.JoinHostPort(k.Name, strconv.Itoa(int(best.Port))))
		}
		if len(servers) == len(kafka) {
			break
		}
	}
	config := map[string]string{topology.EngineServers: strings.Join(servers, ","), "engine.security.protocol": best.Protocol}
	if encrypted(best.Protocol) {
		for key, value := range map[string]string{
			"keystore.type": "PEM", "keystore.location": h.path("tls", nodePEM(n.Name)),
			"truststore.type": "PEM", "truststore.location": h.path("tls", "ca.pem"),
		} {
			config["engine.ssl."+key] = value
		}
	}
	if best.Protocol == "SASL_SSL" || best.Protocol == "SASL_PLAINTEXT" {
		if i := slices.IndexFunc(lab.Users, func(u topology.User) bool { return "User:"+u.Name == SuperUsers }); i >= 0 {
			config["engine.sasl.mechanism"] = "PLAIN"
			config["engine.sasl.jaas.config"] = fmt.Sprintf("%s required username=%s password=%s;", plainModule, quote(lab.Users[i].Name), quote(lab.Users[i].Password))
		}
	}
	return config
}

// faceOf is what Apache Kafka takes a broker for that brings its certificate, by the rules that n has for names.
func faceOf(n, broker *topology.Node) string {
	if cmp.Or(n.Config["ssl.principal.mapping.rules"], PrincipalRules) == PrincipalRules {
		return "User:" + broker.Name
	}
	return "User:CN=" + broker.Name
}
