//go:build linux

package command

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/brokerlab/brokerlab/netlab"
)

// pasteTopic is the topic of the commands that are printed. Brokers make it when it is first used.
const pasteTopic = "test"

// pasteWidth leaves room in a terminal for what is put before and behind a command that goes on in the next line.
const pasteWidth = helpWidth - len("    ") - len(" \\")

// paste is one way to reach brokers: the prefix that puts a command there, and what it needs to know.
type paste struct {
	listener string
	first    *netlab.NodeStatus // of whose cluster servers are
	prefix   string             // "" on this machine
	servers  []string
	others   []string // servers of other clusters
	files    []string // client.properties, one a user
	pkcs12   bool     // there are files with PKCS12 stores, too
}

// pastes are the ways to reach the brokers of a lab, one a listener name.
func pastes(st *netlab.Status) []paste {
	var all []paste
	for i := range st.Nodes {
		n := &st.Nodes[i]
		for _, l := range n.Listeners {
			if k := slices.IndexFunc(all, func(p paste) bool { return p.listener == l.Name }); k >= 0 {
				if first := all[k].first; n.Kind == first.Kind && n.Cluster == first.Cluster {
					all[k].servers = append(all[k].servers, l.Advertised)
				} else {
					all[k].others = append(all[k].others, l.Advertised)
				}
				continue
			}
			p := paste{listener: l.Name, first: n, servers: []string{l.Advertised}, files: l.Properties, pkcs12: len(l.PKCS12) > 0}
			if !fromHost(l) {
				p.prefix = "brokerlab lab exec " + st.Name + " " + near(st, n) + " -- "
			}
			all = append(all, p)
		}
	}
	return all
}

// fromHost tells whether a listener is behind a port of this machine.
func fromHost(l netlab.ListenerStatus) bool { return strings.HasPrefix(l.Advertised, "127.0.0.1:") }

// near is the first subnet that shares a family of addresses with n, or n itself.
func near(st *netlab.Status, n *netlab.NodeStatus) string {
	for i := range st.Subnets {
		for _, p := range st.Subnets[i].Prefixes {
			if slices.ContainsFunc(n.Addresses, func(a netip.Addr) bool { return a.Is6() == p.Addr().Is6() }) {
				return st.Subnets[i].Name
			}
		}
	}
	return n.Name
}

// commands are the lines that produce and consume, ready to be pasted into a root shell.
func (p paste) commands() []string {
	properties := p.files[0]
	kcat := p.prefix + "kcat -F " + strings.TrimSuffix(properties, ".properties") + ".kcat"
	return []string{
		"echo hello | " + kcat + " -P -t " + pasteTopic,
		kcat + " -C -t " + pasteTopic + " -o beginning -e",
		"echo hello | " + p.prefix + "kafka-console-producer.sh --bootstrap-server " + strings.Join(p.servers, ",") +
			" --producer.config " + properties + " --topic " + pasteTopic,
	}
}

// printPastes prints how to produce and consume: over every listener, or over the last one in the lab and the last one
// that this machine reaches.
func printPastes(b *strings.Builder, st *netlab.Status, wide bool) {
	all := pastes(st)
	shown := all
	if !wide {
		shown = nil
		for _, host := range []bool{false, true} {
			for _, p := range slices.Backward(all) {
				if (p.prefix == "") == host {
					shown = append(shown, p)
					break
				}
			}
		}
	}
	if len(shown) == 0 {
		return
	}
	b.WriteString("\nTo paste:\n")
	for _, p := range shown {
		folder, file := filepath.Split(p.files[0])
		fmt.Fprintf(b, "  # %s, as %s\n", p.listener, strings.TrimSuffix(file, ".properties"))
		if p.pkcs12 {
			fmt.Fprintf(b, "  # PKCS12: %spkcs12/%s\n", folder, file)
		}
		if len(p.others) > 0 {
			text := "to another cluster: -b " + strings.Join(p.others, ", or -b ")
			b.WriteString("  # " + strings.ReplaceAll(fold(text, pasteWidth), "\n", "\n  # ") + "\n")
		}
		for _, c := range p.commands() {
			b.WriteString("  " + strings.ReplaceAll(fold(c, pasteWidth), "\n", " \\\n    ") + "\n")
		}
	}
	if len(shown) < len(all) {
		b.WriteString("  # --wide prints them for the other listeners\n")
	}
}
