package report_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2/types"
	. "github.com/onsi/gomega"
	"golang.org/x/net/html"

	"github.com/brokerlab/brokerlab/scenarios/fleet"
	"github.com/brokerlab/brokerlab/scenarios/report"
)

const hostile = "<script>alert('x')</script>\" & \x1b]0;title\x07 \u202e"

func entry(v any) types.ReportEntry { return types.ReportEntry{Value: types.WrapEntryValue(v)} }

func run() types.Report {
	h := fleet.NewHistogram()
	for i := range int64(5000) {
		_ = h.RecordValue(50 + i*i/1000)
	}
	var line []report.Point
	for i := range 300 {
		line = append(line, report.Point{At: time.Duration(i) * 10 * time.Millisecond, Value: float64(i * 7 % 300)})
	}
	it := func(state types.SpecState, text string, entries ...types.ReportEntry) types.SpecReport {
		return types.SpecReport{
			LeafNodeType: types.NodeTypeIt, LeafNodeText: text, State: state, RunTime: time.Second,
			ContainerHierarchyTexts: []string{"The list"}, ContainerHierarchyLabels: [][]string{{"listing"}}, LeafNodeLabels: []string{"fast"}, ReportEntries: entries,
		}
	}
	failed := it(types.SpecStateFailed, "never breaks "+hostile, entry(report.Table{Name: hostile, Columns: []string{"software"}, Rows: [][]string{{hostile}}}))
	failed.Failure = types.Failure{Message: hostile, Location: types.CodeLocation{FileName: "/src/x.go", LineNumber: 7}}
	failed.CapturedGinkgoWriterOutput = hostile
	skipped := it(types.SpecStateSkipped, "needs a kernel")
	skipped.Failure = types.Failure{Message: "no BPF here"}
	return types.Report{
		StartTime: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), RunTime: 3 * time.Second,
		SpecReports: types.SpecReports{
			it(types.SpecStatePassed, "agrees",
				entry(report.Figure{Name: "clients", Value: 3000}),
				entry(report.NewLatency(hostile, h)),
				entry(report.Timeline{Name: hostile, Series: []report.Series{{Name: hostile, Source: "broker", Points: line}, {Name: "kernel", Source: "exact", Points: line[:200]}}}),
			),
			failed, skipped, it(types.SpecStateSkipped, "was left out by the filter"),
		},
	}
}

func TestAReportCountsAndKeepsWhatSpecsAttached(t *testing.T) {
	g := NewWithT(t)
	folder := filepath.Join(t.TempDir(), "new", "report")
	g.Expect(report.New("brokerlab", run()).Write(folder)).To(Succeed())

	text, err := os.ReadFile(filepath.Join(folder, report.JSONFile))
	g.Expect(err).NotTo(HaveOccurred())
	var r report.Report
	g.Expect(json.Unmarshal(text, &r)).To(Succeed())
	g.Expect(r.Schema).To(Equal("brokerlab/report/v1"))
	g.Expect(r.Totals).To(Equal(report.Totals{Specs: 3, Passed: 1, Failed: 1, Skipped: 1}))
	g.Expect(r.Specs).To(HaveEach(HaveField("Suite", "listing")))
	g.Expect(r.Specs[0].Latencies[0]).To(And(HaveField("Count", int64(5000)), HaveField("Min", int64(50))))
	g.Expect(r.Specs[0].Timelines[0].Series[0].Points).To(HaveLen(300))
	g.Expect(r.Specs[1]).To(And(HaveField("State", report.Failed), HaveField("Location", "x.go:7")))
	g.Expect(r.Specs[2].Message).To(Equal("no BPF here"))

	junit, err := os.ReadFile(filepath.Join(folder, report.JUnitFile))
	g.Expect(err).NotTo(HaveOccurred())
	for d := xml.NewDecoder(strings.NewReader(string(junit))); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		g.Expect(err).NotTo(HaveOccurred())
	}
}

func TestBucketsAddUpToTheHistogram(t *testing.T) {
	for _, values := range [][]int64{{}, {1}, {1, 1, 2, 3}, {999, 1000, 1001, 250_000_000}, {7}} {
		h := fleet.NewHistogram()
		for _, v := range values {
			_ = h.RecordValue(v)
		}
		l, sum := report.NewLatency("x", h), int64(0)
		for _, b := range l.Buckets {
			sum += b.Count
		}
		if sum != int64(len(values)) {
			t.Errorf("buckets of %v = %v, want them to add up to %d", values, l.Buckets, len(values))
		}
	}
}

func TestThePageIsOneSafeFile(t *testing.T) {
	g := NewWithT(t)
	page, err := report.New("brokerlab", run()).HTML()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(page)).NotTo(ContainSubstring("<script"))
	g.Expect(string(page)).NotTo(ContainSubstring("\x1b"))
	root, err := html.Parse(strings.NewReader(string(page)))
	g.Expect(err).NotTo(HaveOccurred())
	svgs := 0
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		g.Expect(n.Data).NotTo(BeElementOf("script", "link", "iframe", "object", "embed", "img"))
		if n.Data == "svg" {
			svgs++
		}
		for _, a := range n.Attr {
			g.Expect(a.Key).NotTo(HavePrefix("on"))
			g.Expect(a.Key).NotTo(BeElementOf("src", "href"))
		}
	}
	g.Expect(svgs).To(Equal(2))
	if path := os.Getenv("BROKERLAB_KEEP_REPORT"); path != "" {
		g.Expect(os.WriteFile(path, page, 0o600)).To(Succeed())
	}
}

func TestAnEmptyRunStillMakesAReport(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	g.Expect(report.New("brokerlab", types.Report{}).Write(folder)).To(Succeed())
	g.Expect(report.New("x", types.Report{SpecReports: types.SpecReports{{LeafNodeType: types.NodeTypeIt, State: types.SpecStatePassed, ReportEntries: types.ReportEntries{
		entry(report.Timeline{Name: "empty"}), entry(report.Timeline{Name: "one", Series: []report.Series{{Points: []report.Point{{}}}}}), entry(report.NewLatency("none", fleet.NewHistogram())),
	}}}}).Write(folder)).To(Succeed())
}

// A program that reads report.json finds what it found in an earlier release: a field may come, but one that goes or
// changes its name needs another Schema.
func TestTheFieldsOfReportJSONStay(t *testing.T) {
	g := NewWithT(t)
	text, err := json.Marshal(report.New("brokerlab", run()))
	g.Expect(err).NotTo(HaveOccurred())
	var r map[string]any
	g.Expect(json.Unmarshal(text, &r)).To(Succeed())
	has := func(v any, keys ...string) {
		t.Helper()
		for _, key := range keys {
			g.Expect(v).To(HaveKey(key))
		}
	}
	has(r, "schema", "title", "succeeded", "started", "seconds", "seed", "host", "totals", "specs")
	has(r["host"], "kernel", "arch", "cpus", "go")
	has(r["totals"], "specs", "passed", "failed", "skipped")
	passed, failed := r["specs"].([]any)[0].(map[string]any), r["specs"].([]any)[1].(map[string]any)
	has(passed, "suite", "name", "labels", "state", "seconds", "started", "figures", "latencies", "timelines")
	has(passed["figures"].([]any)[0], "name", "value")
	has(passed["latencies"].([]any)[0], "name", "count", "minMicros", "meanMicros", "p50Micros", "p90Micros", "p99Micros", "p999Micros", "maxMicros", "buckets")
	timeline := passed["timelines"].([]any)[0].(map[string]any)
	has(timeline, "name", "series")
	has(timeline["series"].([]any)[0], "name", "source", "points")
	has(failed, "message", "location", "output", "tables")
	has(failed["tables"].([]any)[0], "name", "columns", "rows")
}
