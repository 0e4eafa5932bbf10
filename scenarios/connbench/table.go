package connbench

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/brokerlab/brokerlab/scenarios/report"
)

// unknown stands for a value that is not known.
const unknown = "-"

// Table is the steps as text, a column for each, a row for each figure that any of them has; the first row is the heading.
func (r *Result) Table() [][]string {
	var rows [][]string
	fields := stepFields()
	for k := range fields {
		row, known := []string{fields[k].name}, false
		for i := range r.Steps {
			text := fields[k].text(&r.Steps[i])
			row, known = append(row, text), known || text != unknown
		}
		if known {
			rows = append(rows, row)
		}
	}
	if len(rows) > 0 {
		rows[0][0] = strings.ToUpper(rows[0][0])
	}
	return rows
}

// field is a figure of a step. value is NaN where it is not known.
type field struct {
	name  string
	unit  string
	value func(*Step) float64
	print func(float64) string
	also  func(*Step) string // after the value
}

func (f *field) text(s *Step) string {
	v := f.value(s)
	if math.IsNaN(v) {
		return unknown
	}
	text := f.print(v)
	if f.also != nil {
		text += f.also(s)
	}
	return text
}

func stepFields() []field {
	whole := func(v float64) string { return number(int(math.Round(v))) }
	micros := func(v float64) string { return report.Micros(int64(math.Round(v))) }
	latency := func(of func(*Step) *report.Latency) (func(*Step) float64, func(*Step) string) {
		return func(s *Step) float64 {
				if l := of(s); l != nil && l.Count > 0 {
					return float64(l.P50)
				}
				return math.NaN()
			}, func(s *Step) string {
				return " / " + report.Micros(of(s).P99)
			}
	}
	connect, connect99 := latency(func(s *Step) *report.Latency { return &s.Connect })
	tls, tls99 := latency(func(s *Step) *report.Latency { return s.TLS })
	sasl, sasl99 := latency(func(s *Step) *report.Latency { return s.SASL })
	first, first99 := latency(func(s *Step) *report.Latency { return &s.First })
	return []field{
		{name: "connections", value: func(s *Step) float64 { return float64(s.Connections) }, print: whole},
		{name: "failed", value: func(s *Step) float64 {
			if s.Failed == 0 {
				return math.NaN()
			}
			return float64(s.Failed)
		}, print: whole},
		{name: "connections/s", value: func(s *Step) float64 { return s.PerSecond }, print: whole},
		{name: "connect p50 / p99", unit: "µs", value: connect, print: micros, also: connect99},
		{name: "tls handshake p50 / p99", unit: "µs", value: tls, print: micros, also: tls99},
		{name: "sasl exchange p50 / p99", unit: "µs", value: sasl, print: micros, also: sasl99},
		{name: "first response p50 / p99", unit: "µs", value: first, print: micros, also: first99},
		{name: "target cpu by connection", unit: "µs", value: func(s *Step) float64 {
			if s.CPU == nil || s.CPU.TargetMicros == 0 {
				return math.NaN()
			}
			return s.CPU.TargetMicros
		}, print: micros},
		{name: "client cpu by connection", unit: "µs", value: func(s *Step) float64 {
			if s.CPU == nil || s.CPU.ClientMicros == 0 {
				return math.NaN()
			}
			return s.CPU.ClientMicros
		}, print: micros},
		{name: "target memory, idle", unit: "B", value: func(s *Step) float64 {
			switch {
			case s.Settled != nil:
				return float64(s.Settled.Resident)
			case s.Storm != nil:
				return float64(s.Storm.Resident)
			}
			return math.NaN()
		}, print: FormatSize},
		{name: "bytes by connection, storm", unit: "B", value: pointed(func(s *Step) *float64 { return s.StormBytes }), print: whole},
		{name: "bytes by connection, idle", unit: "B", value: pointed(func(s *Step) *float64 { return s.SettledBytes }), print: whole},
		{name: "live heap by connection", unit: "B", value: pointed(func(s *Step) *float64 { return s.HeapBytes }), print: whole},
		{name: "kernel bytes by connection", unit: "B", value: pointed(func(s *Step) *float64 { return s.KernelBytes }), print: whole},
		{name: "accept queue overflows", value: func(s *Step) float64 {
			if s.Overflows == nil {
				return math.NaN()
			}
			return float64(*s.Overflows)
		}, print: whole},
		{name: "list of all connections", unit: "µs", value: func(s *Step) float64 {
			if s.Listing == nil {
				return math.NaN()
			}
			return s.Listing.Seconds * 1e6
		}, print: micros},
	}
}

func pointed(of func(*Step) *float64) func(*Step) float64 {
	return func(s *Step) float64 {
		if p := of(s); p != nil {
			return *p
		}
		return math.NaN()
	}
}

// FormatSize prints bytes in the unit that fits.
func FormatSize(bytes float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if math.Abs(bytes) >= u.size {
			return strconv.FormatFloat(bytes/u.size, 'f', 1, 64) + " " + u.name
		}
	}
	return strconv.FormatFloat(bytes, 'f', 0, 64) + " B"
}

// Describe says in lines what was measured and with which load.
func (r *Result) Describe() []string {
	t, l := &r.Target, &r.Load
	what := strings.Join(t.Servers, ", ") + ", " + t.Protocol
	if t.Product != "" {
		what = t.Product + " at " + what
	}
	if t.MutualTLS {
		what += " with client certificates"
	}
	if t.Mechanism != "" {
		what += " (" + t.Mechanism + ")"
	}
	if len(t.Listeners) > 0 {
		what += ", listener " + strings.Join(t.Listeners, ", ")
	}
	processes := make([]string, len(t.PIDs))
	for i, pid := range t.PIDs {
		processes[i] = fmt.Sprintf("; process %d (%s)", pid, t.Programs[i])
	}
	what += strings.Join(processes, "")
	pace := "as fast as possible"
	if l.Rate > 0 {
		pace = strconv.FormatFloat(l.Rate, 'f', -1, 64) + " a second"
	}
	return []string{
		"target: " + what,
		fmt.Sprintf("load: %s, at most %d connecting at a time, from %d client processes; a first response has %g s",
			pace, l.Parallel, l.Processes, l.TimeoutSecs),
	}
}

// limits are those that are set, as text.
func (r *Result) limits() string {
	if len(r.Limits) == 0 {
		return "none is set"
	}
	all := make([]string, len(r.Limits))
	for i := range r.Limits {
		all[i] = r.Limits[i].Key + "=" + strconv.FormatFloat(r.Limits[i].Value, 'f', -1, 64)
		if r.Limits[i].Target != "" {
			all[i] += " at " + r.Limits[i].Target
		}
	}
	return strings.Join(all, ", ")
}

// Findings are what is to be said below the table, a line each.
func (r *Result) Findings() []string {
	var lines []string
	told := false
	for _, text := range r.Unknown {
		told = told || strings.HasPrefix(text, "limits:")
	}
	if !told {
		lines = append(lines, "limits of the target: "+r.limits())
	}
	if r.Target.Protected {
		lines = append(lines, "the listener is the inter-broker listener beside others: "+MaxConnections+" and "+MaxSSLConnections+" of the broker do not hold it")
	}
	if a := r.AtLimit; a != nil {
		lines = append(lines, a.findings()...)
	}
	if r.After != nil && r.Baseline != nil {
		lines = append(lines, fmt.Sprintf("memory with all connections closed: %s (before the first step: %s)",
			FormatSize(float64(r.After.Resident)), FormatSize(float64(r.Baseline.Resident))))
	}
	for _, text := range r.Unknown {
		lines = append(lines, "unknown: "+text)
	}
	return append(lines, "verdict: "+r.Verdict.Text)
}

func (a *AtLimit) findings() []string {
	var lines []string
	if l := a.Admission; l != nil {
		lines = append(lines, fmt.Sprintf("at the limit: one slot free to the first response of who waited: p50 %s, max %s (%d times)",
			report.Micros(l.P50), report.Micros(l.Max), l.Count))
	}
	if a.NotSeen > 0 {
		lines = append(lines, fmt.Sprintf("at the limit: %d slots were freed, and none of the %d that waited was let in within %v", a.NotSeen, a.Waiting, admissionTimeout))
	}
	if a.During.Count > 0 {
		lines = append(lines, fmt.Sprintf("clients inside: a request took p50 %s, p99 %s; before the first step p50 %s, p99 %s; %d lost their connection",
			report.Micros(a.During.P50), report.Micros(a.During.P99), report.Micros(a.Before.P50), report.Micros(a.Before.P99), a.Lost))
	}
	if r := a.Rate; r != nil {
		lines = append(lines, fmt.Sprintf("rate %s: %d connections in %d s, Kafka's rule gives %d (%+.1f %%); the first second %d (%d)",
			r.Limit.Key, r.Sum, r.Seconds, r.SumPredicted, 100*r.Deviation, r.Admitted[0], r.Predicted[0]))
	}
	return lines
}
