//go:build linux

package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/brokerlab/brokerlab/broker"
)

// prepare leaves the asked listener only, and adds sources up by prefix.
func (o *kernelOptions) prepare(counts []kernelCounts) {
	for i := range counts {
		r := &counts[i].Report
		if o.listener != "" {
			r.Ports = slices.DeleteFunc(r.Ports, func(p broker.KernelPort) bool { return !strings.EqualFold(p.Listener, o.listener) })
		}
		counts[i].Prefixes = prefixes(r.Ports)
	}
}

// prefixes adds the sources of ports up, the fullest first.
func prefixes(ports []broker.KernelPort) []prefixCount {
	sums := []prefixCount{}
	for i := range ports {
		byPrefix := map[netip.Prefix]int64{}
		for _, s := range ports[i].Sources {
			bits := prefixBits6
			if s.Addr.Unmap().Is4() {
				bits = prefixBits4
			}
			if p, err := s.Addr.Unmap().WithZone("").Prefix(bits); err == nil {
				byPrefix[p] += s.Count
			}
		}
		for p, n := range byPrefix {
			sums = append(sums, prefixCount{ports[i].Port, p, n})
		}
	}
	slices.SortFunc(sums, func(a, b prefixCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), a.Prefix.Addr().Compare(b.Prefix.Addr()), cmp.Compare(a.Port, b.Port))
	})
	return sums
}

func (o *kernelOptions) printAgain(env Env, counts []kernelCounts, asked error) error {
	switch {
	case o.format == formatJSON:
		return json.NewEncoder(env.Stdout).Encode(withMissing(counts, asked))
	case isTerminal(env.Stdout):
		if _, err := io.WriteString(env.Stdout, refresh); err != nil {
			return err
		}
		return printCounts(env.Stdout, counts, o.sources)
	}
	return printLines(env.Stdout, counts)
}

// sourceLine says where numbers are from and how far they may be trusted.
func sourceLine(c *kernelCounts) string {
	var text string
	r := &c.Report
	switch r.Mode {
	case broker.KernelModeFull:
		text = "counted in the kernel by BPF programs"
	case broker.KernelModeSockDiag:
		text = "polled from the kernel's socket table"
	default:
		text = "not counted"
	}
	text += ": " + r.Exactness
	if c.StartUpGap != nil {
		text += fmt.Sprintf(", start-up gap %d", *c.StartUpGap)
	}
	if r.Why != "" {
		text += " (" + r.Why + ")"
	}
	return text
}

// cells writes numbers with their exactness.
type cells struct {
	mode  string
	lower bool
}

func cellsOf(r *broker.KernelReport) cells {
	return cells{mode: r.Mode, lower: r.Exactness == broker.KernelLowerBound}
}

// number is a number that every mode knows.
func (c cells) number(n int64) string {
	if c.mode == broker.KernelModeOff {
		return "-"
	}
	if c.lower {
		return "≥" + strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt(n, 10)
}

// full is a number that only BPF programs know.
func (c cells) full(n int64) string {
	if c.mode != broker.KernelModeFull {
		return "-"
	}
	return c.number(n)
}

// plain is a number that the kernel keeps itself.
func (c cells) plain(n int64) string {
	if c.mode == broker.KernelModeOff {
		return "-"
	}
	return strconv.FormatInt(n, 10)
}

func printCounts(w io.Writer, counts []kernelCounts, most int) error {
	var text strings.Builder
	for i := range counts {
		if i > 0 {
			text.WriteByte('\n')
		}
		c := &counts[i]
		source := sourceLine(c)
		if c.Node != nil {
			source = fmt.Sprintf("broker %d: %s", *c.Node, source)
		}
		if c.Name != "" {
			source = fmt.Sprintf("node %s: %s", c.Name, source)
		}
		text.WriteString(fold(source, helpWidth) + "\n")
		addPorts(&text, &c.Report)
		for j := range c.Report.Ports {
			if p := &c.Report.Ports[j]; p.Backlog == 0 && c.Node == nil {
				fmt.Fprintf(&text, "nobody listens on port %d in this network namespace\n", p.Port)
			}
		}
		addPrefixes(&text, c, most)
		for _, what := range slices.Sorted(maps.Keys(c.Report.Lost)) {
			fmt.Fprintf(&text, "lost: %d %s\n", c.Report.Lost[what], what)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// addPorts writes what is there now, and below it what went by; side by side they would be wider than a terminal.
func addPorts(text *strings.Builder, r *broker.KernelReport) {
	now := [][]string{{"LISTENER", "PORT", "TOTAL", "TLS", "PLAINTEXT", "UNDECIDED", "UNKNOWN", "SERVED", "MOST SERVED"}}
	gone := [][]string{{"LISTENER", "PORT", "OPENED", "CLOSED", "BYTES IN", "BYTES OUT", "CLOSING", "QUEUE", "BACKLOG", "OVERFLOWS"}}
	n := cellsOf(r)
	var in, out uint64
	for i := range r.Ports {
		p := &r.Ports[i]
		in, out = in+p.BytesIn, out+p.BytesOut
		name, port := cmp.Or(p.Listener, "-"), strconv.Itoa(int(p.Port))
		now = append(now, []string{
			name, port, n.number(p.Established), n.full(p.TLS), n.full(p.Plaintext), n.full(p.Undecided), n.full(p.Unknown),
			n.full(p.Served), n.full(p.ServedMax),
		})
		gone = append(gone, []string{
			name, port, n.number(int64(p.Opened)), n.number(int64(p.Closed)), n.number(int64(p.BytesIn)), n.number(int64(p.BytesOut)),
			n.plain(p.Closing), n.plain(p.AcceptQueue), n.plain(p.Backlog), n.plain(p.Overflows),
		})
	}
	if len(r.Ports) > 1 {
		g := &r.Group
		now = append(now, []string{
			"all", "", n.number(g.Established), n.full(g.TLS), n.full(g.Plaintext), n.full(g.Undecided), n.full(g.Unknown),
			n.full(g.Served), n.full(g.ServedMax),
		})
		gone = append(gone, []string{"all", "", n.number(int64(g.Opened)), n.number(int64(g.Closed)), n.number(int64(in)), n.number(int64(out)), "", "", "", ""})
	}
	columns(text, now, tabwriter.AlignRight)
	text.WriteByte('\n')
	columns(text, gone, tabwriter.AlignRight)
}

func addPrefixes(text *strings.Builder, c *kernelCounts, most int) {
	if len(c.Prefixes) == 0 {
		return
	}
	shown, n := c.Prefixes, cellsOf(&c.Report)
	if most > 0 && len(shown) > most {
		shown = shown[:most]
	}
	rows := [][]string{{"SOURCE", "PORT", "CONNECTIONS"}}
	for _, p := range shown {
		rows = append(rows, []string{p.Prefix.String(), strconv.Itoa(int(p.Port)), n.number(p.Count)})
	}
	text.WriteByte('\n')
	columns(text, rows, 0)
	if rest := len(c.Prefixes) - len(shown); rest > 0 {
		fmt.Fprintf(text, "… and %d more prefixes (--sources 0 prints all)\n", rest)
	}
}

// printLines prints a line of key=value pairs for each listener.
func printLines(w io.Writer, counts []kernelCounts) error {
	var text strings.Builder
	for i := range counts {
		c := &counts[i]
		n := cellsOf(&c.Report)
		for j := range c.Report.Ports {
			p := &c.Report.Ports[j]
			text.WriteString("time=" + c.Time.UTC().Format(time.RFC3339))
			if c.Node != nil {
				fmt.Fprintf(&text, " node=%d", *c.Node)
			}
			if c.Name != "" {
				fmt.Fprintf(&text, " node=%s", c.Name)
			}
			fmt.Fprintf(&text, " listener=%s port=%d total=%s tls=%s plaintext=%s undecided=%s unknown=%s served=%s most_served=%s "+
				"opened=%s closed=%s queue=%s overflows=%s sources=%d source=%s exactness=%q\n",
				cmp.Or(p.Listener, "-"), p.Port, n.number(p.Established), n.full(p.TLS), n.full(p.Plaintext), n.full(p.Undecided),
				n.full(p.Unknown), n.full(p.Served), n.full(p.ServedMax), n.number(int64(p.Opened)), n.number(int64(p.Closed)),
				n.plain(p.AcceptQueue), n.plain(p.Overflows), len(p.Sources), c.Report.Mode, c.Report.Exactness)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}
