package netlab

import (
	"cmp"
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
	files, err := ca.files(lab)
	if err != nil {
		return err
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

// files are the keys and certificates of a lab by the names that they have in tls/: PEM, and for clients PKCS12.
func (a *authority) files(lab *topology.Lab) (map[string][]byte, error) {
	trust, err := a.pkcs12()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{"ca.pem": certPEM(a.cert.Raw), "ca.p12": trust}
	for i := range lab.Nodes {
		id, err := a.server(&lab.Nodes[i])
		if err != nil {
			return nil, err
		}
		if files[nodePEM(lab.Nodes[i].Name)], err = id.pem(); err != nil {
			return nil, err
		}
	}
	for _, u := range lab.Users {
		id, err := a.client(&u)
		if err != nil {
			return nil, err
		}
		if files[userPEM(u.Name)], err = id.pem(); err != nil {
			return nil, err
		}
		if files[userPKCS12(u.Name)], err = id.pkcs12(); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func nodePEM(name string) string { return "node-" + name + ".pem" }
func userPEM(name string) string { return "user-" + name + ".pem" }

func userPKCS12(name string) string { return "user-" + name + ".p12" }

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
// USER.kcat, the same for kcat -F and other programs of librdkafka. Where TLS is spoken pkcs12/USER.properties is the same
// with PKCS12 stores. They lead to the cluster of the first node that has the listener: a client that is given servers of two
// clusters reaches now the one, now the other.
func (h home) writeClientProperties(lab *topology.Lab) error {
	type group struct {
		access
		first   *topology.Node
		servers []string
	}
	groups := map[string]*group{}
	for i := range lab.Nodes {
		n := &lab.Nodes[i]
		if !n.Serves() {
			continue
		}
		for _, l := range allListeners(n) {
			g := groups[l.Name]
			if g == nil {
				g = &group{access: access{l.Protocol, Mechanism(n, l)}, first: n}
				groups[l.Name] = g
			}
			if n.Kind != g.first.Kind || n.ClusterName() != g.first.ClusterName() {
				continue
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
			if err := h.writeUser(name, g.access, strings.Join(g.servers, ","), u); err != nil {
				return err
			}
		}
	}
	return nil
}

// access is how clients reach a listener.
type access struct {
	protocol  string
	mechanism string // for SASL
}

// Mechanism is the SASL mechanism by which a lab's users log in at a listener: PLAIN, or where the broker is told to do
// without it the first SCRAM mechanism that it has. SCRAM credentials are the business of whoever uses the lab.
func Mechanism(n *topology.Node, l topology.Listener) string {
	enabled := entries(cmp.Or(n.Config["listener.name."+strings.ToLower(l.Name)+".sasl.enabled.mechanisms"], n.Config["sasl.enabled.mechanisms"]))
	if i := slices.IndexFunc(enabled, func(m string) bool { return strings.HasPrefix(m, "SCRAM-") }); i >= 0 && !slices.Contains(enabled, "PLAIN") {
		return enabled[i]
	}
	return "PLAIN"
}

// writeUser writes what a user needs for a listener.
func (h home) writeUser(listener string, a access, servers string, u topology.User) error {
	files := map[string]string{
		h.properties(listener, u.Name):                                  h.clientProperties(a, servers, u, "PEM"),
		h.path("properties", strings.ToLower(listener), u.Name+".kcat"): h.kcatConfig(a, servers, u),
	}
	if encrypted(a.protocol) {
		files[h.pkcs12Properties(listener, u.Name)] = h.clientProperties(a, servers, u, "PKCS12")
	}
	for path, text := range files {
		if err := writeSecret(path, []byte(text)); err != nil {
			return err
		}
	}
	return nil
}

// encrypted tells whether a security protocol is spoken over TLS.
func encrypted(protocol string) bool { return strings.HasSuffix(protocol, "SSL") }

// properties is where the client.properties of a user for a listener is.
func (h home) properties(listener, user string) string {
	return h.path("properties", strings.ToLower(listener), user+".properties")
}

// pkcs12Properties is where the same with PKCS12 stores is. The folder keeps it apart from users of any name.
func (h home) pkcs12Properties(listener, user string) string {
	return h.path("properties", strings.ToLower(listener), "pkcs12", user+".properties")
}

// clientProperties is the text of a client.properties file; storeType is PEM or PKCS12.
func (h home) clientProperties(a access, servers string, u topology.User, storeType string) string {
	trust, key := "ca.pem", userPEM(u.Name)
	if storeType == "PKCS12" {
		trust, key = "ca.p12", userPKCS12(u.Name)
	}
	var b strings.Builder
	store := func(kind, file string) {
		fmt.Fprintf(&b, "ssl.%s.type=%s\nssl.%s.location=%s\n", kind, storeType, kind, h.path("tls", file))
		if storeType == "PKCS12" {
			fmt.Fprintf(&b, "ssl.%s.password=%s\n", kind, storePassword)
		}
	}
	fmt.Fprintf(&b, "bootstrap.servers=%s\nsecurity.protocol=%s\n", servers, a.protocol)
	if strings.HasPrefix(a.protocol, "SASL") {
		module := plainModule
		if a.mechanism != "PLAIN" {
			module = scramModule
		}
		fmt.Fprintf(&b, "sasl.mechanism=%s\nsasl.jaas.config=%s\n", a.mechanism,
			property(fmt.Sprintf(`%s required username=%s password=%s;`, module, quote(u.Name), quote(u.Password))))
	}
	if encrypted(a.protocol) {
		store("truststore", trust)
	}
	if a.protocol == "SSL" {
		store("keystore", key)
	}
	return b.String()
}

// kcatConfig is clientProperties in librdkafka's words.
func (h home) kcatConfig(a access, servers string, u topology.User) string {
	var b strings.Builder
	fmt.Fprintf(&b, "bootstrap.servers=%s\nsecurity.protocol=%s\n", servers, a.protocol)
	if strings.HasPrefix(a.protocol, "SASL") {
		fmt.Fprintf(&b, "sasl.mechanism=%s\nsasl.username=%s\nsasl.password=%s\n", a.mechanism, u.Name, u.Password)
	}
	if encrypted(a.protocol) {
		fmt.Fprintf(&b, "ssl.ca.location=%s\n", h.path("tls", "ca.pem"))
	}
	if a.protocol == "SSL" {
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
