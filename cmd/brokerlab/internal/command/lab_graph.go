//go:build linux

package command

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/netlab/topology"
)

// manySubnets is how many subnets of one count are drawn as one.
const manySubnets = 5

// graphFormat is the value of lab graph's --format.
type graphFormat string

const (
	graphMermaid graphFormat = "mermaid"
	graphDOT     graphFormat = "dot"
)

// String, Set and Type make graphFormat a flag that refuses other words.
func (f *graphFormat) String() string { return string(*f) }

// Set takes mermaid or dot.
func (f *graphFormat) Set(s string) error {
	switch graphFormat(s) {
	case graphMermaid, graphDOT:
		*f = graphFormat(s)
		return nil
	}
	return fmt.Errorf("%q is not a format: use mermaid or dot", s)
}

// Type names the value in --help.
func (*graphFormat) Type() string { return "mermaid|dot" }

type labGraphOptions struct {
	format graphFormat
	wide   bool
}

func newLabGraph(env Env) *cobra.Command {
	o := labGraphOptions{format: graphMermaid}
	c := &cobra.Command{
		Use:   "graph FILE|NAME",
		Short: "Draw a lab",
		Long: `Print a drawing of a lab, for documents: as a Mermaid diagram, which many of them render, or for Graphviz's dot. A lab
file is enough; the lab need not be up, and no privileges are needed.`,
		Example: `  brokerlab lab graph examples/quickstart.yaml
  brokerlab lab graph examples/quickstart.yaml --format dot`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			lab, err := topologyOf(args[0])
			if err != nil {
				return err
			}
			_, err = io.WriteString(env.Stdout, drawingOf(lab, o.wide).text(o.format))
			return err
		},
	}
	c.Flags().Var(&o.format, "format", "how to print")
	c.Flags().BoolVar(&o.wide, "wide", false, "draw each subnet, also those of a count")
	return c
}

// topologyOf is the lab that arg means: a file's, or that of a lab that is up.
func topologyOf(arg string) (*topology.Lab, error) {
	if !isFile(arg) {
		lab, err := openLab(arg)
		if err != nil {
			return nil, err
		}
		return lab.Topology(), nil
	}
	lab, err := topology.Load(arg)
	if err != nil {
		return nil, &ExitError{Code: 2, Err: fmt.Errorf("lab file cannot be used:\n%w", err)}
	}
	return lab, nil
}

// drawing is a lab as boxes around its router.
type drawing struct {
	title          string
	subnets, nodes []box
	ports          []port
	fronts         []front
}

// front is a broker before a node of its engine, by their places among the nodes.
type front struct{ broker, engine int }

// box is a subnet or node: the lines of its label.
type box []string

// port is a port of the machine that leads to a node.
type port struct {
	number uint16
	node   int
}

func drawingOf(lab *topology.Lab, wide bool) drawing {
	d := drawing{title: lab.Name}
	for i := range lab.Nodes {
		n := &lab.Nodes[i]
		b := box{n.Name + " (" + n.Kind + ")"}
		for _, a := range n.Addresses {
			b = append(b, a.String())
		}
		for _, l := range n.Listeners {
			text := l.Name + " " + net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port)))
			if l.Name != l.Protocol {
				text += " " + l.Protocol
			}
			b = append(b, text)
		}
		for _, e := range n.Expose {
			d.ports = append(d.ports, port{e.Port, i})
		}
		d.nodes = append(d.nodes, b)
		d.fronts = append(d.fronts, frontsOf(lab, i)...)
	}
	for rest := lab.Subnets; len(rest) > 0; {
		some := 1
		if !wide {
			some = countOf(rest)
		}
		first, last := &rest[0], &rest[some-1]
		b := box{first.Name}
		if some > 1 {
			b = box{fmt.Sprintf("%s … %s", first.Name, last.Name), fmt.Sprintf("%d subnets", some)}
		}
		for k, p := range first.Prefixes {
			text := p.String()
			if some > 1 {
				text += " … " + last.Prefixes[k].String()
			}
			b = append(b, text)
		}
		d.subnets, rest = append(d.subnets, b), rest[some:]
	}
	return d
}

// frontsOf is what the i-th node of a lab is the face of: its cluster's engine, or the node of Apache Kafka with its id.
func frontsOf(lab *topology.Lab, i int) []front {
	n := &lab.Nodes[i]
	if n.Kind != topology.Broker {
		return nil
	}
	var all []front
	for k := range lab.Nodes {
		e := &lab.Nodes[k]
		if e.ClusterName() == n.ClusterName() && (e.Kind == topology.Engine || e.Kind == topology.Kafka && e.Config["node.id"] == n.Config["node.id"]) {
			all = append(all, front{i, k})
		}
	}
	return all
}

// countOf is how many subnets at the begin of all are one count, name-1, name-2 …, and too many to draw; else 1.
func countOf(all []topology.Subnet) int {
	stem, ok := strings.CutSuffix(all[0].Name, "-1")
	n := 1
	for ok && n < len(all) && all[n].Name == stem+"-"+strconv.Itoa(n+1) && len(all[n].Prefixes) == len(all[0].Prefixes) {
		n++
	}
	if n < manySubnets {
		return 1
	}
	return n
}

// text is the drawing in a format. Names, addresses and listeners have no characters that a label could not have.
func (d drawing) text(f graphFormat) string {
	if f == graphDOT {
		return d.dot()
	}
	return d.mermaid()
}

func (d drawing) mermaid() string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\ntitle: lab %s\n---\ngraph LR\n  router((router))\n", d.title)
	for i, n := range d.nodes {
		fmt.Fprintf(&b, "  router --- n%d[\"%s\"]\n", i+1, strings.Join(n, "<br>"))
	}
	for i, s := range d.subnets {
		fmt.Fprintf(&b, "  s%d([\"%s\"]) --- router\n", i+1, strings.Join(s, "<br>"))
	}
	for _, f := range d.fronts {
		fmt.Fprintf(&b, "  n%d -. engine .-> n%d\n", f.broker+1, f.engine+1)
	}
	for _, p := range d.ports {
		fmt.Fprintf(&b, "  host[/\"127.0.0.1 of this machine\"/] -- \"%d\" --> n%d\n", p.number, p.node+1)
	}
	return b.String()
}

func (d drawing) dot() string {
	var b strings.Builder
	fmt.Fprintf(&b, "graph \"%s\" {\n  label=\"lab %s\"; rankdir=LR; node [shape=box];\n  router [shape=circle];\n", d.title, d.title)
	for i, s := range d.subnets {
		fmt.Fprintf(&b, "  s%d [shape=ellipse, label=\"%s\"];\n  s%d -- router;\n", i+1, strings.Join(s, `\n`), i+1)
	}
	for i, n := range d.nodes {
		fmt.Fprintf(&b, "  n%d [label=\"%s\"];\n  router -- n%d;\n", i+1, strings.Join(n, `\n`), i+1)
	}
	for _, f := range d.fronts {
		fmt.Fprintf(&b, "  n%d -- n%d [label=\"engine\", style=dashed, dir=forward];\n", f.broker+1, f.engine+1)
	}
	if len(d.ports) > 0 {
		b.WriteString("  host [shape=parallelogram, label=\"127.0.0.1 of this machine\"];\n")
	}
	for _, p := range d.ports {
		fmt.Fprintf(&b, "  host -- n%d [label=\"%d\", dir=forward];\n", p.node+1, p.number)
	}
	b.WriteString("}\n")
	return b.String()
}
