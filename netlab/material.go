package netlab

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/brokerlab/brokerlab/netlab/netns"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

// material writes what nodes and clients need: hosts, tls/ and properties/.
func (h home) material(lab *topology.Lab) error {
	if err := h.writeHosts(lab); err != nil {
		return err
	}
	ca, err := newAuthority(lab.Name)
	if err != nil {
		return err
	}
	files := map[string][]byte{"ca.pem": certPEM(ca.cert.Raw)}
	for i := range lab.Nodes {
		if files[nodePEM(lab.Nodes[i].Name)], err = ca.server(&lab.Nodes[i]); err != nil {
			return err
		}
	}
	for _, u := range lab.Users {
		if files[userPEM(u.Name)], err = ca.client(u.Name); err != nil {
			return err
		}
	}
	for name, text := range files {
		if err := writeSecret(h.path("tls", name), text); err != nil {
			return err
		}
	}
	if err := h.writeClientProperties(lab); err != nil {
		return err
	}
	return h.handOver()
}

func nodePEM(name string) string { return "node-" + name + ".pem" }
func userPEM(name string) string { return "user-" + name + ".pem" }

// writeSecret writes a file for its owner only, and the folder it is in.
func writeSecret(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

// hostsFile is the file of node names for a place with these families. Where there is only one, so have the names: a
// Java client tries the first family that a name has and no other.
func hostsFile(v4, v6 bool) string {
	switch {
	case v4 && !v6:
		return "hosts.ipv4"
	case v6 && !v4:
		return "hosts.ipv6"
	}
	return "hosts"
}

// writeHosts names the nodes for every program that runs in the lab.
func (h home) writeHosts(lab *topology.Lab) error {
	for _, v4 := range []bool{false, true} {
		for _, v6 := range []bool{false, true} {
			text := hosts(lab, v4 || !v6, v6 || !v4)
			if err := os.WriteFile(h.path(hostsFile(v4, v6)), []byte(text), 0o644); err != nil { //nolint:gosec // like /etc/hosts
				return err
			}
		}
	}
	// Without this a program that asks for any other name would wait for the machine's name server, which it cannot reach.
	const nobody = "# a lab has no DNS\nnameserver 127.0.0.1\noptions timeout:1 attempts:1\n"
	return os.WriteFile(h.path("resolv.conf"), []byte(nobody), 0o644) //nolint:gosec // like /etc/resolv.conf
}

// hosts is the text of a hosts file with addresses of these families.
func hosts(lab *topology.Lab, v4, v6 bool) string {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n::1 localhost\n")
	machine, _ := os.Hostname() // unknown: nothing asks for it
	isMachine := func(n topology.Node) bool { return strings.EqualFold(n.Name, machine) }
	if machine != "" && !slices.ContainsFunc(lab.Nodes, isMachine) {
		fmt.Fprintf(&b, "127.0.1.1 %s\n", machine) // Java programs look themselves up
	}
	for i := range lab.Nodes {
		for _, a := range lab.Nodes[i].Addresses {
			if a.Is4() && v4 || a.Is6() && v6 {
				fmt.Fprintf(&b, "%s %s\n", a, lab.Nodes[i].Name)
			}
		}
	}
	return b.String()
}

// view is what programs in a node or subnet see of the machine's files: the lab's names, and no lab's namespaces, which
// they would keep alive.
func (h home) view(lab *topology.Lab, in string) netns.View {
	v4, v6 := false, false
	for _, m := range members(lab) {
		for _, p := range m.prefixes {
			v4, v6 = v4 || m.name == in && p.Addr().Is4(), v6 || m.name == in && p.Addr().Is6()
		}
	}
	return netns.View{
		Files: map[string]string{"/etc/hosts": h.path(hostsFile(v4, v6)), "/etc/resolv.conf": h.path("resolv.conf")},
		Hide:  h.root(),
	}
}

// anonymous names the properties of a listener where nobody logs in.
const anonymous = "anonymous"

// writeClientProperties writes properties/LISTENER/USER.properties for every listener of the lab, and beside it
// USER.kcat, the same for kcat -F and other programs of librdkafka.
func (h home) writeClientProperties(lab *topology.Lab) error {
	type group struct {
		protocol string
		servers  []string
	}
	groups := map[string]*group{}
	for i := range lab.Nodes {
		n := &lab.Nodes[i]
		if n.Kind != topology.Broker {
			continue
		}
		for _, l := range allListeners(n) {
			g := groups[l.Name]
			if g == nil {
				g = &group{protocol: l.Protocol}
				groups[l.Name] = g
			}
			g.servers = append(g.servers, advertised(n, l))
		}
	}
	for name, g := range groups {
		users := []topology.User{{Name: anonymous}}
		if g.protocol != "PLAINTEXT" {
			users = lab.Users
		}
		for _, u := range users {
			servers := strings.Join(g.servers, ",")
			text := h.clientProperties(g.protocol, servers, u)
			if err := writeSecret(h.properties(name, u.Name), []byte(text)); err != nil {
				return err
			}
			text = h.kcatConfig(g.protocol, servers, u)
			if err := writeSecret(h.path("properties", strings.ToLower(name), u.Name+".kcat"), []byte(text)); err != nil {
				return err
			}
		}
	}
	return nil
}

// properties is where the client.properties of a user for a listener is.
func (h home) properties(listener, user string) string {
	return h.path("properties", strings.ToLower(listener), user+".properties")
}

func (h home) clientProperties(protocol, servers string, u topology.User) string {
	var b strings.Builder
	fmt.Fprintf(&b, "bootstrap.servers=%s\nsecurity.protocol=%s\n", servers, protocol)
	if strings.HasPrefix(protocol, "SASL") {
		fmt.Fprintf(&b, "sasl.mechanism=PLAIN\nsasl.jaas.config=%s\n",
			property(fmt.Sprintf(`%s required username=%s password=%s;`, plainModule, quote(u.Name), quote(u.Password))))
	}
	if strings.HasSuffix(protocol, "SSL") {
		fmt.Fprintf(&b, "ssl.truststore.type=PEM\nssl.truststore.location=%s\n", h.path("tls", "ca.pem"))
	}
	if protocol == "SSL" {
		fmt.Fprintf(&b, "ssl.keystore.type=PEM\nssl.keystore.location=%s\n", h.path("tls", userPEM(u.Name)))
	}
	return b.String()
}

// kcatConfig is clientProperties in librdkafka's words.
func (h home) kcatConfig(protocol, servers string, u topology.User) string {
	var b strings.Builder
	fmt.Fprintf(&b, "bootstrap.servers=%s\nsecurity.protocol=%s\n", servers, protocol)
	if strings.HasPrefix(protocol, "SASL") {
		fmt.Fprintf(&b, "sasl.mechanism=PLAIN\nsasl.username=%s\nsasl.password=%s\n", u.Name, u.Password)
	}
	if strings.HasSuffix(protocol, "SSL") {
		fmt.Fprintf(&b, "ssl.ca.location=%s\n", h.path("tls", "ca.pem"))
	}
	if protocol == "SSL" {
		file := h.path("tls", userPEM(u.Name))
		fmt.Fprintf(&b, "ssl.certificate.location=%s\nssl.key.location=%s\n", file, file)
	}
	return b.String()
}

const (
	plainModule = "org.apache.kafka.common.security.plain.PlainLoginModule"
	scramModule = "org.apache.kafka.common.security.scram.ScramLoginModule"
)

// quote writes a value of a JAAS entry.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// property writes a value of a properties file.
func property(s string) string {
	s = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`).Replace(s)
	if strings.HasPrefix(s, " ") {
		s = `\` + s
	}
	return s
}

// handOver gives keys and properties to the person who called sudo: clients on the machine are theirs.
func (h home) handOver() error {
	uid, errU := strconv.Atoi(os.Getenv("SUDO_UID"))
	gid, errG := strconv.Atoi(os.Getenv("SUDO_GID"))
	if errU != nil || errG != nil {
		return nil //nolint:nilerr // nobody called sudo
	}
	for _, part := range []string{"tls", "properties"} {
		err := filepath.WalkDir(h.path(part), func(path string, _ os.DirEntry, err error) error {
			if err != nil || strings.HasPrefix(filepath.Base(path), "node-") {
				return err
			}
			return os.Lchown(path, uid, gid) //nolint:gosec // nobody but root can write there yet
		})
		if err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("give %s to the user behind sudo: %w", part, err)
		}
	}
	return nil
}

// allListeners are a broker's own listeners and those behind its exposed ports.
func allListeners(n *topology.Node) []topology.Listener {
	all := slices.Clone(n.Listeners)
	for _, e := range n.Expose {
		all = append(all, topology.Listener{Name: exposedName(e), Protocol: e.Protocol, Port: e.Port})
	}
	return all
}

func exposedName(e topology.Expose) string { return fmt.Sprintf("EXPOSED_%d", e.Port) }

// advertised is the address that clients are told for a listener.
func advertised(n *topology.Node, l topology.Listener) string {
	host := n.Name
	switch {
	case slices.ContainsFunc(n.Expose, func(e topology.Expose) bool { return exposedName(e) == l.Name }):
		host = "127.0.0.1"
	case l.Host != "" && l.Host != "0.0.0.0" && l.Host != "::":
		host = l.Host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(l.Port)))
}
