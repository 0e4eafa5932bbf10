package connbench

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/brokerlab/brokerlab/scenarios/report"
)

// Named is a run and what to call it beside others.
type Named struct {
	Name   string
	Result *Result
}

// Compare lays runs side by side as rows of text, the first being the heading: for each number of connections that at least two of them came
// to, a row for each figure. The last columns are ratios to the first run.
func Compare(runs []Named) [][]string {
	heading := []string{"CONNECTIONS", "FIGURE"}
	for _, r := range runs {
		heading = append(heading, r.Name)
	}
	for _, r := range runs[min(1, len(runs)):] {
		heading = append(heading, r.Name+"/"+runs[0].Name)
	}
	rows := [][]string{heading}
	for _, want := range common(runs) {
		for _, f := range stepFields() {
			if row := compareRow(runs, want, &f); row != nil {
				rows = append(rows, append([]string{number(want), f.name}, row...))
			}
		}
	}
	return rows
}

// common are the steps that at least two runs made.
func common(runs []Named) []int {
	times := map[int]int{}
	for _, r := range runs {
		for i := range r.Result.Steps {
			times[r.Result.Steps[i].Want]++
		}
	}
	maps.DeleteFunc(times, func(_, n int) bool { return n < 2 })
	return slices.Sorted(maps.Keys(times))
}

// compareRow is one figure of each run, and the ratios; nil where fewer than two runs have it or it says nothing.
func compareRow(runs []Named, want int, f *field) []string {
	texts, ratios := make([]string, len(runs)), make([]string, 0, len(runs))
	values := make([]float64, len(runs))
	known := 0
	for i, r := range runs {
		texts[i], values[i] = unknown, math.NaN()
		at := slices.IndexFunc(r.Result.Steps, func(s Step) bool { return s.Want == want })
		if at < 0 {
			continue
		}
		if values[i] = f.value(&r.Result.Steps[at]); !math.IsNaN(values[i]) {
			known++
			texts[i] = f.text(&r.Result.Steps[at])
		}
	}
	if known < 2 {
		return nil
	}
	for _, v := range values[1:] {
		ratio := unknown
		if q := v / values[0]; !math.IsNaN(q) && !math.IsInf(q, 0) {
			ratio = fmt.Sprintf("%.2f", q)
		}
		ratios = append(ratios, ratio)
	}
	return slices.Concat(texts, ratios)
}

// compared is a section of the HTML report.
func compared(runs []Named) report.Section {
	rows := Compare(runs)
	s := report.Section{Name: "Side by side", Tables: []report.Table{{Name: "by step", Columns: lower(rows[0]), Rows: rows[1:]}}}
	for _, r := range runs {
		s.Text = append(s.Text, r.Name+": "+strings.Join(r.Result.Describe(), "; ")+". "+r.Result.Verdict.Text)
	}
	wants := common(runs)
	fields := stepFields()
	for i := range fields {
		if p := comparePlot(runs, wants, &fields[i]); len(p.Lines) > 1 && fields[i].name != "connections" {
			s.Plots = append(s.Plots, p)
		}
	}
	return s
}

// comparePlot is one figure of each run over the connections that several came to.
func comparePlot(runs []Named, wants []int, f *field) report.Plot {
	p := report.Plot{Name: f.name, Unit: f.unit}
	for _, want := range wants {
		p.Labels = append(p.Labels, number(want))
	}
	for _, r := range runs {
		l := report.Line{Name: r.Name, Values: make([]*float64, len(wants))}
		for i, want := range wants {
			at := slices.IndexFunc(r.Result.Steps, func(s Step) bool { return s.Want == want })
			if at < 0 {
				continue
			}
			if v := f.value(&r.Result.Steps[at]); !math.IsNaN(v) {
				l.Values[i] = &v
			}
		}
		if !empty(l) {
			p.Lines = append(p.Lines, l)
		}
	}
	return p
}

func lower(texts []string) []string {
	all := make([]string, len(texts))
	for i, t := range texts {
		all[i] = t
		if i < 2 {
			all[i] = strings.ToLower(t)
		}
	}
	return all
}
