package netlab

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/brokerlab/brokerlab/netlab/topology"
)

// brokerKind runs this binary's broker, which is told everything by its server.properties.
type brokerKind struct{}

func (brokerKind) command(h home, s *state, n *topology.Node) (args, env []string) {
	return []string{s.Binary, "broker", "--config", h.path("nodes", n.Name, "server.properties")}, nil
}

func (brokerKind) prepare(h home, s *state, n *topology.Node, kernel string) error {
	config := h.brokerDefaults(s.Lab, n, kernel)
	maps.Copy(config, n.Config)
	complete(config, n)
	var b strings.Builder
	fmt.Fprintf(&b, "# Node %s of lab %s. Made by lab up; change the lab file, not this.\n", n.Name, s.Lab.Name)
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if config[key] == "" && n.Config[key] == "" {
			if _, asked := n.Config[key]; asked {
				continue // an empty value takes the lab's default away
			}
		}
		fmt.Fprintf(&b, "%s=%s\n", key, property(config[key]))
	}
	return writeSecret(h.path("nodes", n.Name, "server.properties"), []byte(b.String()))
}

// brokerDefaults is what a broker gets unless the file says otherwise.
func (h home) brokerDefaults(lab *topology.Lab, n *topology.Node, kernel string) map[string]string {
	config := map[string]string{
		"log.dirs":                       h.path("nodes", n.Name, "data"),
		"ssl.keystore.type":              "PEM",
		"ssl.keystore.location":          h.path("tls", nodePEM(n.Name)),
		"ssl.truststore.type":            "PEM",
		"ssl.truststore.location":        h.path("tls", "ca.pem"),
		"ssl.client.auth":                "requested",
		"ssl.principal.mapping.rules":    "RULE:^CN=([^,]+).*$/$1/,DEFAULT",
		"sasl.enabled.mechanisms":        "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"inter.broker.listener.name":     n.Listeners[0].Name,
		"super.users":                    "User:admin",
		"listeners":                      "",
		"advertised.listeners":           "",
		"listener.security.protocol.map": "",
	}
	if kernel != "" {
		config["kernel.accounting"] = "lab:" + kernel
	}
	var plain strings.Builder
	plain.WriteString(plainModule + " required")
	for _, u := range lab.Users {
		fmt.Fprintf(&plain, " user_%s=%s", u.Name, quote(u.Password))
	}
	for _, l := range allListeners(n) {
		if !strings.HasPrefix(l.Protocol, "SASL") {
			continue
		}
		prefix := "listener.name." + strings.ToLower(l.Name) + "."
		config[prefix+"plain.sasl.jaas.config"] = plain.String() + ";"
		config[prefix+"scram-sha-256.sasl.jaas.config"] = scramModule + " required;"
		config[prefix+"scram-sha-512.sasl.jaas.config"] = scramModule + " required;"
	}
	return config
}

// complete adds the exposed listeners to what the file says, which may have maps and advertised listeners of its own.
func complete(config map[string]string, n *topology.Node) {
	given := config["advertised.listeners"]
	var listeners, names, protocols []string
	for _, l := range allListeners(n) {
		listeners = append(listeners, l.Name+"://"+net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))))
		protocols = append(protocols, l.Name+":"+l.Protocol)
		if !strings.Contains(strings.ToUpper(given), l.Name+"://") {
			names = append(names, l.Name+"://"+advertised(n, l))
		}
	}
	if given != "" {
		names = append([]string{given}, names...)
	}
	config["listeners"] = strings.Join(listeners, ",")
	config["advertised.listeners"] = strings.Join(names, ",")
	config["listener.security.protocol.map"] = strings.Join(protocols, ",")
}
