package netlab

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/brokerlab/brokerlab/netlab/topology"
)

// What a broker of a lab is told unless the file says otherwise.
const (
	PrincipalRules = "RULE:^CN=([^,]+).*$/$1/,DEFAULT" // ssl.principal.mapping.rules
	SuperUsers     = "User:admin"                      // super.users
)

// brokerKind runs this binary's broker, which is told everything by its server.properties.
type brokerKind struct{}

func (brokerKind) command(h home, s *state, n *topology.Node) (program, error) {
	return program{args: []string{s.Binary, "broker", "--config", h.serverProperties(n)}}, nil
}

func (brokerKind) prepare(h home, s *state, n *topology.Node, kernel string) error {
	config := h.serverDefaults(s.Lab, n)
	if len(n.Listeners) > 0 && n.Config["security.inter.broker.protocol"] == "" {
		config["inter.broker.listener.name"] = n.Listeners[0].Name
	}
	if kernel != "" {
		config["kernel.accounting"] = "lab:" + kernel
	}
	maps.Copy(config, h.engineConfig(s.Lab, n))
	maps.Copy(config, n.Config)
	complete(config, n, allListeners(n))
	return h.writeServerProperties(s.Lab, n, config)
}

// serverProperties is the file that tells a broker everything.
func (h home) serverProperties(n *topology.Node) string {
	return h.path("nodes", n.Name, "server.properties")
}

// writeServerProperties writes it. An empty value in the lab file takes the lab's default away.
func (h home) writeServerProperties(lab *topology.Lab, n *topology.Node, config map[string]string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Node %s of lab %s. Made by lab up; change the lab file, not this.\n", n.Name, lab.Name)
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if config[key] == "" && n.Config[key] == "" {
			if _, asked := n.Config[key]; asked {
				continue
			}
		}
		fmt.Fprintf(&b, "%s=%s\n", key, property(config[key]))
	}
	return writeSecret(h.serverProperties(n), []byte(b.String()))
}

// serverDefaults is what every Kafka broker gets unless the file says otherwise, ours and Apache's.
func (h home) serverDefaults(lab *topology.Lab, n *topology.Node) map[string]string {
	config := map[string]string{
		"log.dirs":                       h.path("nodes", n.Name, "data"),
		"ssl.keystore.type":              "PEM",
		"ssl.keystore.location":          h.path("tls", nodePEM(n.Name)),
		"ssl.truststore.type":            "PEM",
		"ssl.truststore.location":        h.path("tls", "ca.pem"),
		"ssl.principal.mapping.rules":    PrincipalRules,
		"sasl.enabled.mechanisms":        "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"super.users":                    SuperUsers,
		"listeners":                      "",
		"advertised.listeners":           "",
		"listener.security.protocol.map": "",
	}
	var plain strings.Builder
	plain.WriteString(plainModule + " required")
	for _, u := range lab.Users {
		fmt.Fprintf(&plain, " user_%s=%s", u.Name, quote(u.Password))
	}
	for _, l := range allListeners(n) {
		prefix := "listener.name." + strings.ToLower(l.Name) + "."
		if l.Protocol == "SSL" {
			config[prefix+"ssl.client.auth"] = cmp.Or(n.Config["ssl.client.auth"], "requested")
		}
		if !strings.HasPrefix(l.Protocol, "SASL") {
			continue
		}
		config[prefix+"plain.sasl.jaas.config"] = plain.String() + ";"
		config[prefix+"scram-sha-256.sasl.jaas.config"] = scramModule + " required;"
		config[prefix+"scram-sha-512.sasl.jaas.config"] = scramModule + " required;"
	}
	return config
}

// complete adds listeners to what the file says, which may have a map and advertised listeners of its own.
func complete(config map[string]string, n *topology.Node, all []topology.Listener) {
	var listeners []string
	names, protocols := entries(config["advertised.listeners"]), entries(config["listener.security.protocol.map"])
	for _, l := range all {
		listeners = append(listeners, l.Name+"://"+net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))))
		names = addTo(names, l.Name+":", "//"+advertised(n, l))
		protocols = addTo(protocols, l.Name+":", l.Protocol)
	}
	config["listeners"] = strings.Join(listeners, ",")
	config["advertised.listeners"] = strings.Join(names, ",")
	config["listener.security.protocol.map"] = strings.Join(protocols, ",")
}

// entries are the parts of a list as Kafka writes it.
func entries(list string) []string {
	var all []string
	for e := range strings.SplitSeq(list, ",") {
		if e = strings.TrimSpace(e); e != "" {
			all = append(all, e)
		}
	}
	return all
}

// addTo appends an entry unless one with that beginning is there.
func addTo(all []string, beginning, rest string) []string {
	if slices.ContainsFunc(all, func(e string) bool { return strings.HasPrefix(strings.ToUpper(e), beginning) }) {
		return all
	}
	return append(all, beginning+rest)
}
