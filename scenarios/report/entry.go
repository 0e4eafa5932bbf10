package report

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/onsi/ginkgo/v2"
)

// Figure is one number that a spec measured.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit,omitempty"`
	Note  string  `json:"note,omitempty"` // what it is to be compared with, how exact it is
}

// Latency is a histogram of times, in microseconds.
type Latency struct {
	Name    string  `json:"name"`
	Count   int64   `json:"count"`
	Min     int64   `json:"minMicros"`
	Mean    float64 `json:"meanMicros"`
	P50     int64   `json:"p50Micros"`
	P90     int64   `json:"p90Micros"`
	P99     int64   `json:"p99Micros"`
	P999    int64   `json:"p999Micros"`
	Max     int64   `json:"maxMicros"`
	Buckets []Bar   `json:"buckets"` // in steps of one, two and five; only those between Min and Max
}

// Bar is how many times lie above the bar before and up to UpTo.
type Bar struct {
	UpTo  int64 `json:"upToMicros"`
	Count int64 `json:"count"`
}

// NewLatency sums up a histogram of microseconds.
func NewLatency(name string, h *hdrhistogram.Histogram) Latency {
	l := Latency{Name: name, Count: h.TotalCount()}
	if l.Count > 0 {
		l.Min, l.Mean, l.Max = h.Min(), h.Mean(), h.Max()
		l.P50, l.P90 = h.ValueAtQuantile(50), h.ValueAtQuantile(90)
		l.P99, l.P999 = h.ValueAtQuantile(99), h.ValueAtQuantile(99.9)
		l.Buckets = buckets(h)
	}
	return l
}

// buckets gathers h's own, finer ones in steps of one, two and five, without the empty ones at both ends.
func buckets(h *hdrhistogram.Histogram) []Bar {
	var out []Bar
	limit := steps()
	upTo := limit()
	for _, fine := range h.Distribution() {
		for fine.To > upTo {
			upTo = limit()
			if len(out) > 0 {
				out = append(out, Bar{UpTo: upTo})
			}
		}
		switch {
		case len(out) > 0:
			out[len(out)-1].Count += fine.Count
		case fine.Count > 0:
			out = append(out, Bar{upTo, fine.Count})
		}
	}
	for len(out) > 0 && out[len(out)-1].Count == 0 {
		out = out[:len(out)-1]
	}
	return out
}

// steps counts 1, 2, 5, 10, 20, 50 …
func steps() (next func() int64) {
	decade, i := int64(1), 0
	return func() int64 {
		if i == 3 {
			decade, i = decade*10, 0
		}
		i++
		return decade * []int64{1, 2, 5}[i-1]
	}
}

// Timeline is how several numbers of one kind went on during a spec.
type Timeline struct {
	Name   string   `json:"name"`
	Unit   string   `json:"unit,omitempty"`
	Series []Series `json:"series"`
}

// Series is one line of a timeline.
type Series struct {
	Name   string  `json:"name"`
	Source string  `json:"source,omitempty"` // who says so: clients, broker, kernel (exact) …
	Points []Point `json:"points"`
}

// Point is a value at a time since the timeline's beginning.
type Point struct {
	At    time.Duration `json:"atNanos"`
	Value float64       `json:"value"`
}

// Table is rows of text.
type Table struct {
	Name    string     `json:"name"`
	Columns []string   `json:"columns"`
	Rows    [][]string `json:"rows"`
}

// Evidence is what was kept of a spec that failed.
type Evidence struct {
	Folder string // below the report's own folder; empty: nothing was saved
	Lab    string // the lab that was left standing; empty: none
}

// Lack says what kind of thing a skipped spec would have needed.
type Lack string

// What can be lacking.
const (
	LackPrivileges Lack = "privileges" // root, or a capability
	LackKernel     Lack = "kernel"     // a feature of the kernel
	LackTarget     Lack = "target"     // something that the product which the specs run against does not have
	LackClient     Lack = "client"     // a library of clients, on this machine
)

// Entry is what a spec can attach: [Figure], [Latency], [Timeline], [Table], [Evidence] or [Lack].
type Entry interface{ entryName() string }

func (f Figure) entryName() string   { return f.Name }
func (l Latency) entryName() string  { return l.Name }
func (t Timeline) entryName() string { return t.Name }
func (t Table) entryName() string    { return t.Name }
func (Evidence) entryName() string   { return "evidence" }
func (Lack) entryName() string       { return "lack" }

// Attach adds e to the report of the spec that runs.
func Attach(e Entry) {
	ginkgo.AddReportEntry(e.entryName(), ginkgo.ReportEntryVisibilityNever, ginkgo.Offset(1), e)
}
