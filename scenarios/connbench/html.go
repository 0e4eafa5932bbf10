package connbench

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/brokerlab/brokerlab/scenarios/report"
)

// HTML is the run as one file that needs nothing else, laid beside others where there are any.
func (r *Result) HTML(others []Named) ([]byte, error) {
	p := report.Page{
		Title: "Connections: " + cmp.Or(r.Target.Product, strings.Join(r.Target.Servers, ", ")),
		Lead: append(r.Describe(), fmt.Sprintf("%s, %.0f s, clients on Linux %s %s with %d processors",
			r.Started.UTC().Format("2006-01-02 15:04:05 UTC"), r.Seconds, r.Host.Kernel, r.Host.Arch, r.Host.CPUs)),
	}
	rows := r.Table()
	verdict := report.Section{Name: "Verdict", Text: []string{r.Verdict.Text}}
	if len(r.Verdict.Failures) > 0 {
		t := report.Table{Name: "what clients saw that failed", Columns: []string{"clients", "outcome", "step", "after", "error"}}
		for _, f := range r.Verdict.Failures {
			t.Rows = append(t.Rows, []string{number(f.Count), string(f.Outcome), string(f.Phase), fmt.Sprintf("%.1f s", f.After), f.Error})
		}
		verdict.Tables = append(verdict.Tables, t)
	}
	steps := report.Section{
		Name: "Steps", Text: bottlenecks(r.Steps), Plots: r.plots(), Timelines: r.timelines(),
	}
	if len(rows) > 0 {
		steps.Tables = []report.Table{{Name: "by step", Columns: rows[0], Rows: rows[1:]}}
	}
	if peak := r.Peak(); peak != nil {
		steps.Latencies = peak.shown()
	}
	p.Sections = append(p.Sections, verdict, steps)
	if a := r.AtLimit; a != nil {
		p.Sections = append(p.Sections, a.section())
	}
	if len(others) > 0 {
		p.Sections = append(p.Sections, compared(append([]Named{{r.Name(), r}}, others...)))
	}
	notes := report.Section{Name: "Notes", Text: r.Findings()}
	p.Sections = append(p.Sections, notes)
	return p.HTML()
}

// bottlenecks says of each step what kept it from being faster.
func bottlenecks(steps []Step) []string {
	var lines []string
	for i := range steps {
		lines = append(lines, fmt.Sprintf("To %s connections, what kept it from being faster: %s.", number(steps[i].Want), steps[i].Bottleneck))
	}
	return lines
}

// shown are the latencies of a step that has any.
func (s *Step) shown() []report.Latency {
	all := []report.Latency{s.Connect, s.First}
	for _, l := range []*report.Latency{s.TLS, s.SASL} {
		if l != nil {
			all = append(all, *l)
		}
	}
	all = slices.DeleteFunc(all, func(l report.Latency) bool { return l.Count == 0 })
	for i := range all {
		all[i].Name += fmt.Sprintf(", of the %s that came last", number(s.New))
	}
	return all
}

// plots are the figures of steps over the number of connections.
func (r *Result) plots() []report.Plot {
	labels := make([]string, len(r.Steps))
	for i := range r.Steps {
		labels[i] = number(r.Steps[i].Connections)
	}
	line := func(name string, of func(*Step) float64) report.Line {
		l := report.Line{Name: name}
		for i := range r.Steps {
			v := of(&r.Steps[i])
			if math.IsNaN(v) {
				l.Values = append(l.Values, nil)
			} else {
				l.Values = append(l.Values, &v)
			}
		}
		return l
	}
	millis := func(of func(*Step) int64) func(*Step) float64 {
		return func(s *Step) float64 { return float64(of(s)) / 1e3 }
	}
	micros := func(of func(*CPU) float64) func(*Step) float64 {
		return func(s *Step) float64 {
			if s.CPU == nil || of(s.CPU) == 0 {
				return math.NaN()
			}
			return of(s.CPU)
		}
	}
	plots := []report.Plot{
		{Name: "first response over connections", Unit: "ms", Lines: []report.Line{
			line("p50", millis(func(s *Step) int64 { return s.First.P50 })),
			line("p99", millis(func(s *Step) int64 { return s.First.P99 })),
		}},
		{Name: "connections a second", Unit: "1/s", Lines: []report.Line{line("came up", func(s *Step) float64 { return s.PerSecond })}},
		{Name: "memory by connection", Unit: "bytes", Lines: []report.Line{
			line("right after the storm", pointed(func(s *Step) *float64 { return s.StormBytes })),
			line("idle", pointed(func(s *Step) *float64 { return s.SettledBytes })),
			line("kernel", pointed(func(s *Step) *float64 { return s.KernelBytes })),
		}, Note: "Growth of the target's resident memory since before the first step. The kernel's is of both ends where both are on this machine."},
		{Name: "processor time by connection", Unit: "µs", Lines: []report.Line{
			line("target", micros(func(c *CPU) float64 { return c.TargetMicros })),
			line("clients", micros(func(c *CPU) float64 { return c.ClientMicros })),
		}},
	}
	for i := range plots {
		plots[i].Labels = labels
		plots[i].Lines = slices.DeleteFunc(plots[i].Lines, empty)
	}
	return slices.DeleteFunc(plots, func(p report.Plot) bool { return len(p.Lines) == 0 || len(p.Labels) == 0 })
}

// empty tells whether l has no value at all.
func empty(l report.Line) bool {
	return !slices.ContainsFunc(l.Values, func(v *float64) bool { return v != nil })
}

// timelines are how the run went on.
func (r *Result) timelines() []report.Timeline {
	connections := report.Timeline{Name: "connections", Series: []report.Series{{Name: "up", Source: "clients"}}}
	cores := report.Timeline{Name: "processor time", Unit: "% of one", Series: []report.Series{{Name: "clients", Source: "kernel"}}}
	resident := report.Timeline{Name: "resident memory of the target", Unit: "MiB", Series: []report.Series{{Name: "rss", Source: "kernel"}}}
	target := report.Series{Name: "target", Source: "kernel"}
	const percent = 100
	for _, s := range r.Samples {
		at := func(v float64) report.Point { return report.Point{At: s.At, Value: v} }
		connections.Series[0].Points = append(connections.Series[0].Points, at(float64(s.Connections)))
		cores.Series[0].Points = append(cores.Series[0].Points, at(percent*s.ClientCores))
		if s.Resident > 0 {
			resident.Series[0].Points = append(resident.Series[0].Points, at(float64(s.Resident)/(1<<20)))
			target.Points = append(target.Points, at(percent*s.TargetCores))
		}
	}
	if len(r.Samples) == 0 {
		return nil
	}
	if len(target.Points) == 0 {
		return []report.Timeline{connections, cores}
	}
	cores.Series = append(cores.Series, target)
	return []report.Timeline{connections, cores, resident}
}

func (a *AtLimit) section() report.Section {
	s := report.Section{Name: "At the limit", Text: a.findings()}
	for _, l := range []report.Latency{a.Before, a.During} {
		if l.Count > 0 {
			s.Latencies = append(s.Latencies, l)
		}
	}
	if a.Admission != nil {
		s.Latencies = append(s.Latencies, *a.Admission)
	}
	if a.Rate == nil {
		return s
	}
	plot := report.Plot{Name: "admitted a second, " + a.Rate.Limit.Key, Lines: []report.Line{{Name: "measured"}, {Name: "Kafka's rule"}}}
	for i := range a.Rate.Admitted {
		plot.Labels = append(plot.Labels, fmt.Sprintf("%d s", i))
		plot.Lines[0].Values = append(plot.Lines[0].Values, new(float64(a.Rate.Admitted[i])))
		plot.Lines[1].Values = append(plot.Lines[1].Values, new(float64(a.Rate.Predicted[i])))
	}
	s.Plots = append(s.Plots, plot)
	return s
}
