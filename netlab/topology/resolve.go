package topology

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/magiconair/properties"
)

// Limits of a lab.
const (
	maxName    = 40   // bytes of a lab's, node's or subnet's name: a Unix socket's path has 108 in all
	maxSubnets = 2000 // each is a namespace with two links
)

// Resolve settles everything the file leaves open and checks the rest; folder is what relative file names start from.
// A wrong file gives [InvalidError].
func (f *File) Resolve(folder string) (*Lab, error) {
	r := &report{file: cmp.Or(f.Name, "lab")}
	lab := f.resolve(r, folder)
	if err := r.err(); err != nil {
		return nil, err
	}
	return lab, nil
}

func (f *File) resolve(r *report, folder string) *Lab {
	res := resolver{report: r, folder: folder, names: map[string]string{"router": "the lab's router", "localhost": "every machine itself"}}
	lab := &Lab{Name: f.Name}
	if f.Name == "" {
		r.at("name", "name is missing")
	} else {
		res.name("name", f.Name)
	}
	f = res.expand(f)
	if len(f.Nodes)+len(f.Subnets) == 0 && len(r.problems) == 0 {
		r.at("", "has neither nodes nor subnets")
	}
	for _, name := range natural(f.Nodes) {
		path := "nodes." + name
		res.name(path, name)
		res.claimName(path, name, "a node")
	}
	res.explicit(f)
	lab.Subnets = res.subnets(f)
	lab.Nodes = res.nodes(f)
	lab.Users = res.users(f)
	lab.Topics = res.topics(f)
	lab.ACLs = res.acls(f)
	lab.ACLFile = res.aclFile(f)
	lab.Expect = res.expect(f, lab)
	return lab
}

// resolver holds what was used up so far.
type resolver struct {
	*report
	folder  string
	names   map[string]string // node and subnet names in use, and what uses them
	taken   table
	exposed map[Port]string
}

// natural gives the keys of m ordered by name, numbers in names compared as numbers: broker2 before broker10.
func natural[V any](m map[string]V) []string {
	return slices.SortedFunc(maps.Keys(m), compareNatural)
}

func compareNatural(a, b string) int {
	x, y := a, b
	for x != "" && y != "" {
		n, m := digits(x), digits(y)
		if n > 0 && m > 0 {
			p, q := strings.TrimLeft(x[:n], "0"), strings.TrimLeft(y[:m], "0")
			if c := cmp.Or(cmp.Compare(len(p), len(q)), cmp.Compare(p, q)); c != 0 {
				return c
			}
			x, y = x[n:], y[m:]
			continue
		}
		if x[0] != y[0] {
			return cmp.Compare(x[0], y[0])
		}
		x, y = x[1:], y[1:]
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

func digits(s string) int {
	return len(s) - len(strings.TrimLeft(s, "0123456789"))
}

// name checks that a name can be a host name and part of a path.
func (r *resolver) name(path, name string) {
	switch {
	case len(name) > maxName:
		r.at(path, "name %q has %d characters: at most %d are possible", name, len(name), maxName)
	case !regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$`).MatchString(name):
		r.at(path, "name %q may have letters, digits and hyphens only, and no hyphen at either end", name)
	}
}

// claimName takes a name for one thing of the lab.
func (r *resolver) claimName(path, name, what string) {
	key := strings.ToLower(name) // host names know no case
	if by, taken := r.names[key]; taken {
		r.at(path, "name %q is taken: it is %s", name, by)
		return
	}
	r.names[key] = what
}

// explicit claims all prefixes and addresses that the file writes out, before any pool is cut.
func (r *resolver) explicit(f *File) {
	for _, name := range natural(f.Subnets) {
		for i, text := range f.Subnets[name].CIDR {
			path := fmt.Sprintf("subnets.%s.cidr[%d]", name, i)
			if p, ok := r.prefix(path, text); ok {
				r.claim(path, p, "subnet "+name)
			}
		}
	}
	for _, name := range natural(f.Nodes) {
		for i, text := range f.Nodes[name].Addresses {
			path := fmt.Sprintf("nodes.%s.addresses[%d]", name, i)
			if a, ok := r.address(path, text); ok {
				r.claim(path, netip.PrefixFrom(a, a.BitLen()), "node "+name)
			}
		}
	}
}

func (r *resolver) claim(path string, p netip.Prefix, owner string) {
	if by, overlaps := r.taken.overlap(p); overlaps {
		r.at(path, "%s overlaps %s of %s", printPrefix(p), printPrefix(by.prefix), by.owner)
		return
	}
	r.taken.add(p, owner)
}

// printPrefix writes a single address without its length.
func printPrefix(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// prefix reads a CIDR prefix that a subnet may have.
func (r *resolver) prefix(path, text string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		r.at(path, "%q is no CIDR prefix such as 10.1.0.0/24 or fd00:1::/64", text)
		return p, false
	}
	if p.Addr().Is4In6() {
		r.at(path, "%s is an IPv4-mapped prefix: write it as IPv4", text)
		return p, false
	}
	if p != p.Masked() {
		r.at(path, "%s has host bits set: did you mean %s?", text, p.Masked())
		return p, false
	}
	if p.Bits() == 0 {
		r.at(path, "%s is the whole address space: it leaves no address for a node", text)
		return p, false
	}
	for _, reserved := range reserved() {
		if p.Overlaps(reserved.prefix) {
			r.at(path, "%s overlaps %s, which is for %s", text, reserved.prefix, reserved.owner)
			return p, false
		}
	}
	return p, true
}

// address reads an address that a node may have.
func (r *resolver) address(path, text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		r.at(path, "%q is no IPv4 or IPv6 address", text)
		return a, false
	}
	_, ok := r.prefix(path, netip.PrefixFrom(a, a.BitLen()).String())
	return a, ok
}

// reserved are the prefixes that mean something else to the kernel or to the lab itself.
func reserved() []claim {
	return []claim{
		{netip.MustParsePrefix("0.0.0.0/8"), "this network"},
		{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
		{netip.MustParsePrefix("169.254.0.0/16"), "the links inside the lab"},
		{netip.MustParsePrefix("224.0.0.0/3"), "multicast, broadcast and reserved addresses"},
		{netip.MustParsePrefix("::/96"), "loopback and the unspecified address"},
		{netip.MustParsePrefix("fe80::/10"), "the links inside the lab"},
		{netip.MustParsePrefix("ff00::/8"), "multicast"},
	}
}

func (r *resolver) subnets(f *File) []Subnet {
	var all []Subnet
	for _, name := range natural(f.Subnets) {
		path, s := "subnets."+name, f.Subnets[name]
		r.name(path, name)
		switch {
		case len(s.CIDR) > 0 && (s.Count != 0 || len(s.From) > 0 || len(s.Prefix) > 0):
			r.at(path, "subnet %q has both cidr and count, from or prefix: one subnet, or a number of them", name)
		case len(s.CIDR) > 0:
			r.claimName(path, name, "a subnet")
			subnet := Subnet{Name: name}
			for _, text := range s.CIDR {
				if p, err := netip.ParsePrefix(text); err == nil { // a wrong one was reported
					subnet.Prefixes = append(subnet.Prefixes, p)
				}
			}
			all = append(all, subnet)
		case s.Count == 0 && len(s.From) == 0:
			r.at(path, "subnet %q needs cidr, or count and from", name)
		default:
			all = append(all, r.generated(path, name, s)...)
		}
		if len(all) > maxSubnets {
			r.at(path, "the lab has over %d subnets", maxSubnets)
			return nil
		}
	}
	slices.SortFunc(all, func(a, b Subnet) int { return compareNatural(a.Name, b.Name) })
	return all
}

// generated cuts s.Count subnets out of s.From.
func (r *resolver) generated(path, name string, s FileSubnet) []Subnet {
	switch {
	case s.Count < 1 || s.Count > maxSubnets:
		r.at(path+".count", "count is %d: want 1 to %d", s.Count, maxSubnets)
		return nil
	case len(s.From) == 0:
		r.at(path, "subnet %q needs from: the pool to cut %d subnets out of", name, s.Count)
		return nil
	case len(s.Prefix) > 0 && len(s.Prefix) != len(s.From):
		r.at(path+".prefix", "prefix has %d lengths for %d pools", len(s.Prefix), len(s.From))
		return nil
	case len(name)+1+len(strconv.Itoa(s.Count)) > maxName:
		r.at(path, "name %q leaves no room for a number: at most %d characters are possible in all", name, maxName)
		return nil
	}
	all := make([]Subnet, s.Count)
	for i := range all {
		all[i].Name = fmt.Sprintf("%s-%d", name, i+1)
		r.claimName(path, all[i].Name, "a subnet of "+name)
	}
	for k, text := range s.From {
		at := fmt.Sprintf("%s.from[%d]", path, k)
		pool, ok := r.prefix(at, text)
		if !ok {
			continue
		}
		bits := 24
		if pool.Addr().Is6() {
			bits = 64
		}
		if len(s.Prefix) > 0 {
			bits = s.Prefix[k]
		}
		if bits < pool.Bits() || bits > pool.Addr().BitLen() {
			r.at(at, "subnets of length %d cannot be cut from %s", bits, pool)
			continue
		}
		next := pool.Addr()
		for i := range all {
			p, ok := r.taken.cut(pool, next, bits)
			if !ok {
				r.at(at, "%s has room for %d of the %d subnets of length %d", pool, i, s.Count, bits)
				break
			}
			r.taken.add(p, "subnet "+all[i].Name)
			all[i].Prefixes = append(all[i].Prefixes, p)
			next = last(p).Next()
		}
	}
	return all
}

func (r *resolver) nodes(f *File) []Node {
	r.exposed = map[Port]string{}
	all := make([]Node, 0, len(f.Nodes))
	ids := idsOf(f)
	for _, name := range natural(f.Nodes) {
		path, n := "nodes."+name, f.Nodes[name]
		node := Node{Name: name, Kind: n.Kind, Env: texts(n.Env), Cmd: n.Cmd, Cluster: n.Cluster}
		node.Addresses = r.addresses(path, n)
		if n.Cluster != "" {
			r.name(path+".cluster", n.Cluster)
		}
		switch n.Kind {
		case Broker:
			r.broker(path, n, &node, ids)
		case Engine:
			r.engine(path, n)
		case Kafka:
			r.kafka(path, n, &node, ids)
		case Exec:
			r.exec(path, n, &node)
		case "":
			r.at(path, "kind is missing: want %s", strings.Join(kinds(), ", "))
		default:
			r.at(path+".kind", "unknown kind %q%s", n.Kind, nearest(n.Kind, kinds()))
		}
		r.expose(path, n, &node)
		slices.Sort(node.Ports)
		node.Ports = slices.Compact(node.Ports)
		all = append(all, node)
	}
	r.levels(all)
	r.clusters(all)
	return all
}

// kinds are those that a node can be of.
func kinds() []string { return []string{Broker, Engine, Kafka, Exec} }

// addresses gives a node what the file says, or one free address of each family.
func (r *resolver) addresses(path string, n FileNode) []netip.Addr {
	var all []netip.Addr
	for _, text := range n.Addresses {
		if a, err := netip.ParseAddr(text); err == nil { // a wrong one was reported
			all = append(all, a)
		}
	}
	if len(n.Addresses) > 0 {
		return all
	}
	for _, pool := range []string{"198.18.0.0/15", "fd00:6c61:62::/64"} {
		p := netip.MustParsePrefix(pool)
		a, ok := r.taken.cut(p, p.Addr().Next(), p.Addr().BitLen())
		if !ok {
			r.at(path, "%s, where nodes get their addresses, is used up: give the node addresses", pool)
			continue
		}
		r.taken.add(a, path)
		all = append(all, a.Addr())
	}
	return all
}

// broker resolves what only a broker has.
func (r *resolver) broker(path string, n FileNode, node *Node, ids *ids) {
	r.refuse(path, "broker", ofKafka(n), map[string]bool{"cmd": len(n.Cmd) > 0, "env": len(n.Env) > 0, "ports": len(n.Ports) > 0})
	r.server(path, n, node, ids)
}

// server resolves what every Kafka broker has, whoever wrote it.
func (r *resolver) server(path string, n FileNode, node *Node, ids *ids) {
	node.Config = r.config(path, n)
	at := path + ".listeners"
	texts := []string(n.Listeners)
	if own, set := node.Config["listeners"]; set {
		if len(texts) > 0 {
			r.at(at, "listeners are also in config or config-file: keep one of them")
		}
		at, texts = path+".config.listeners", strings.Split(own, ",")
		delete(node.Config, "listeners")
	}
	if len(texts) == 0 {
		texts = []string{"PLAINTEXT://:9092", "SSL://:9093", "SASL_PLAINTEXT://:9094", "SASL_SSL://:9095"}
	}
	protocols := protocolMap(node.Config["listener.security.protocol.map"])
	seen := map[string]bool{}
	for _, text := range texts {
		l, err := parseListener(strings.TrimSpace(text), protocols)
		if err != nil {
			r.at(at, "%v", err)
			continue
		}
		if seen[l.Name] {
			r.at(at, "listener %s is here twice", l.Name)
			continue
		}
		seen[l.Name] = true
		node.Listeners = append(node.Listeners, l)
		if l.Port != 0 {
			node.Ports = append(node.Ports, l.Port)
		}
	}
	taken := ids.among(node)
	id := cmp.Or(node.Config["node.id"], node.Config["broker.id"], strconv.Itoa(len(taken)+1))
	if other, is := taken[id]; is {
		r.at(path, "node.id %s is that of %s", id, other)
	}
	taken[id] = node.Name
	node.Config["node.id"] = id
}

// config merges a broker's properties: the file it names, then its own keys.
func (r *resolver) config(path string, n FileNode) map[string]string {
	merged := map[string]string{}
	if n.ConfigFile != "" {
		name := n.ConfigFile
		if !filepath.IsAbs(name) {
			name = filepath.Join(r.folder, name)
		}
		text, err := os.ReadFile(name)
		if err == nil {
			var p *properties.Properties
			loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
			if p, err = loader.LoadBytes(text); err == nil {
				merged = p.Map()
			}
		}
		if err != nil {
			r.at(path+".config-file", "read properties: %v", err)
		}
	}
	for key, value := range n.Config {
		merged[key] = string(value)
	}
	return merged
}

// exec resolves what only a program has.
func (r *resolver) exec(path string, n FileNode, node *Node) {
	r.refuse(path, "exec", ofKafka(n), map[string]bool{"cluster": n.Cluster != "", "config": len(n.Config) > 0, "config-file": n.ConfigFile != "", "listeners": len(n.Listeners) > 0})
	if len(n.Cmd) == 0 || n.Cmd[0] == "" {
		r.at(path, "cmd is missing: the program that the node runs")
	}
	if len(n.Cmd) == 1 {
		node.Cmd = []string{"sh", "-c", n.Cmd[0]}
	}
	for _, p := range n.Ports {
		node.Ports = append(node.Ports, uint16(p))
	}
}

// refuse reports keys that a kind of node has no use for.
func (r *resolver) refuse(path, kind string, sets ...map[string]bool) {
	for _, set := range sets {
		for _, key := range slices.Sorted(maps.Keys(set)) {
			if set[key] {
				r.at(path+"."+key, "a node of kind %s has no %s", kind, key)
			}
		}
	}
}

func (r *resolver) expose(path string, n FileNode, node *Node) {
	for i, e := range n.Expose {
		at := fmt.Sprintf("%s.expose[%d]", path, i)
		protocol := e.Protocol
		if node.Serves() {
			protocol = cmp.Or(protocol, "PLAINTEXT")
			if !slices.Contains(protocols(), protocol) {
				r.at(at, "%q is no security protocol%s", protocol, nearest(protocol, protocols()))
			}
			if slices.Contains(node.Ports, uint16(e.Port)) {
				r.at(at, "port %d is that of another listener of the node: an exposed port is a listener of its own", e.Port)
			}
		} else if protocol != "" {
			r.at(at, "only a broker's exposed port has a protocol")
		}
		if e.Port == 0 {
			if len(r.problems) == 0 {
				r.at(at, "port is missing")
			}
			continue
		}
		if by, taken := r.exposed[e.Port]; taken {
			r.at(at, "port %d is exposed by %s already", e.Port, by)
			continue
		}
		r.exposed[e.Port] = node.Name
		node.Expose = append(node.Expose, Expose{uint16(e.Port), protocol})
		node.Ports = append(node.Ports, uint16(e.Port))
	}
}

func (r *resolver) users(f *File) []User {
	users := f.Users
	if users == nil {
		users = map[string]FileUser{"admin": {}, "alice": {}, "bob": {}}
	}
	all := make([]User, 0, len(users))
	for _, name := range natural(users) {
		path := "users." + name
		if !regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]*$`).MatchString(name) || len(name) > maxName {
			r.at(path, "user %q: want at most %d letters, digits and _ . @ -", name, maxName)
		}
		password := cmp.Or(users[name].Password, name+"-secret")
		if strings.ContainsFunc(password, func(c rune) bool { return c < ' ' }) {
			r.at(path+".password", "the password has control characters")
		}
		if dn := users[name].DN; dn != "" {
			if _, err := ParseDN(dn); err != nil {
				r.at(path+".dn", "%v", err)
			}
		}
		all = append(all, User{name, password, users[name].DN})
	}
	return all
}

func texts(m map[string]Text) map[string]string {
	if len(m) == 0 {
		return nil
	}
	plain := make(map[string]string, len(m))
	for k, v := range m {
		plain[k] = string(v)
	}
	return plain
}
