package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/onsi/ginkgo/v2/reporters"
	"github.com/onsi/ginkgo/v2/types"
	"golang.org/x/sys/unix"
)

// Schema names the shape of report.json. It changes when a field changes its meaning or goes; new fields may come.
const Schema = "brokerlab/report/v1"

// Report is report.json.
type Report struct {
	Schema    string    `json:"schema"`
	Title     string    `json:"title"`
	Succeeded bool      `json:"succeeded"`
	Started   time.Time `json:"started"`
	Seconds   float64   `json:"seconds"`
	Seed      int64     `json:"seed"`
	Filter    string    `json:"labelFilter,omitempty"`
	Target    string    `json:"target,omitempty"`   // the product that the specs ran against, as people call it
	Problems  []string  `json:"problems,omitempty"` // of the run as a whole
	Host      Host      `json:"host"`
	Totals    Totals    `json:"totals"`
	Specs     []Spec    `json:"specs"`

	ginkgo types.Report
}

// Host is where the suites ran.
type Host struct {
	Kernel string `json:"kernel"`
	Arch   string `json:"arch"`
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`
}

// Totals counts the specs that were chosen.
type Totals struct {
	Specs   int `json:"specs"`
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// State is how a spec ended.
type State string

// The states. A spec that was interrupted, ran out of time or panicked has failed.
const (
	Passed  State = "passed"
	Failed  State = "failed"
	Skipped State = "skipped"
)

// word is what people read of a state: promises are kept or broken.
func (s State) word() string {
	switch s {
	case Passed:
		return "kept"
	case Failed:
		return "broken"
	case Skipped:
	}
	return string(s)
}

// Spec is one promise.
type Spec struct {
	Suite     string     `json:"suite"` // see [SuiteOf]
	Name      string     `json:"name"`  // with all containers around it
	Labels    []string   `json:"labels"`
	State     State      `json:"state"`
	Seconds   float64    `json:"seconds"`
	Started   time.Time  `json:"started"`
	Message   string     `json:"message,omitempty"` // why it failed or was skipped
	Location  string     `json:"location,omitempty"`
	Output    string     `json:"output,omitempty"`
	Attempts  int        `json:"attempts,omitempty"` // how often it was tried, where a run repeats its specs
	Lacks     Lack       `json:"lacks,omitempty"`    // what kind of thing was not there, of a skipped spec
	Folder    string     `json:"folder,omitempty"`   // what was saved of a failed spec, relative to the report
	Lab       string     `json:"lab,omitempty"`      // the lab of a failed spec that was left standing
	Figures   []Figure   `json:"figures,omitempty"`
	Latencies []Latency  `json:"latencies,omitempty"`
	Timelines []Timeline `json:"timelines,omitempty"`
	Tables    []Table    `json:"tables,omitempty"`
	Plots     []Plot     `json:"-"` // suites attach none
}

// SuiteOf is the suite that a spec belongs to: the first label of its outermost container, which is how `brokerlab run
// SUITE` finds it. "" without one.
func SuiteOf(s *types.SpecReport) string {
	if len(s.ContainerHierarchyLabels) == 0 || len(s.ContainerHierarchyLabels[0]) == 0 {
		return ""
	}
	return s.ContainerHierarchyLabels[0][0]
}

// New makes a report of what ginkgo ran. Specs that the label filter left out are not in it.
func New(title string, run types.Report) *Report {
	r := &Report{
		Schema: Schema, Title: title, Succeeded: run.SuiteSucceeded, Started: run.StartTime, Seconds: run.RunTime.Seconds(),
		Seed: run.SuiteConfig.RandomSeed, Filter: run.SuiteConfig.LabelFilter, Problems: run.SpecialSuiteFailureReasons,
		Host: ThisHost(), Specs: []Spec{}, ginkgo: run,
	}
	for i := range run.SpecReports {
		s := &run.SpecReports[i]
		if s.LeafNodeType != types.NodeTypeIt {
			if s.State.Is(types.SpecStateFailureStates) {
				r.Problems = append(r.Problems, Clean(s.LeafNodeType.String()+": "+s.Failure.Message))
			}
			continue
		}
		if s.State == types.SpecStateSkipped && s.Failure.Message == "" {
			continue // left out by the filter: not chosen
		}
		spec := newSpec(s)
		r.Specs = append(r.Specs, spec)
		r.Totals.Specs++
		switch spec.State {
		case Passed:
			r.Totals.Passed++
		case Failed:
			r.Totals.Failed++
		case Skipped:
			r.Totals.Skipped++
		}
	}
	return r
}

// StateOf is how the spec of s ended.
func StateOf(s *types.SpecReport) State {
	switch {
	case s.State.Is(types.SpecStatePassed):
		return Passed
	case s.State.Is(types.SpecStateSkipped | types.SpecStatePending), s.State.Is(types.SpecStateInterrupted):
		return Skipped // whoever ended the run has not broken a promise
	}
	return Failed
}

func newSpec(s *types.SpecReport) Spec {
	spec := Spec{
		Suite: SuiteOf(s),
		Name:  Clean(s.FullText()), Labels: s.Labels(), State: StateOf(s), Seconds: s.RunTime.Seconds(), Started: s.StartTime,
		Message: Clean(s.Failure.Message), Output: Clean(s.CapturedGinkgoWriterOutput),
	}
	if spec.State == Failed {
		spec.Location = fmt.Sprintf("%s:%d", filepath.Base(s.Failure.Location.FileName), s.Failure.Location.LineNumber)
	}
	for i := range s.AdditionalFailures {
		if text := Clean(s.AdditionalFailures[i].Failure.Message); !strings.Contains(spec.Message, text) {
			spec.Message = strings.TrimSpace(spec.Message + "\n\nafter that: " + text)
		}
	}
	if s.MaxMustPassRepeatedly > 1 {
		spec.Attempts = s.NumAttempts
	}
	for i := range s.ReportEntries {
		spec.add(s.ReportEntries[i].GetRawValue())
	}
	if spec.Attempts > 1 { // what the last attempt measured
		spec.Figures, spec.Latencies = lastOfEach(spec.Figures), lastOfEach(spec.Latencies)
		spec.Timelines, spec.Tables = lastOfEach(spec.Timelines), lastOfEach(spec.Tables)
	}
	return spec
}

// lastOfEach keeps the last entry of each name.
func lastOfEach[E Entry](all []E) []E {
	var kept []E
	for i, e := range all {
		if !slices.ContainsFunc(all[i+1:], func(later E) bool { return later.entryName() == e.entryName() }) {
			kept = append(kept, e)
		}
	}
	return kept
}

// add takes an entry in, with its text cleaned.
func (s *Spec) add(entry any) {
	switch v := entry.(type) {
	case Figure:
		v.Name, v.Unit, v.Note = Clean(v.Name), Clean(v.Unit), Clean(v.Note)
		s.Figures = append(s.Figures, v)
	case Latency:
		v.Name = Clean(v.Name)
		s.Latencies = append(s.Latencies, v)
	case Timeline:
		v.Name, v.Series = Clean(v.Name), slices.Clone(v.Series)
		for i := range v.Series {
			v.Series[i].Name, v.Series[i].Source = Clean(v.Series[i].Name), Clean(v.Series[i].Source)
		}
		s.Timelines = append(s.Timelines, v)
	case Table:
		v.Name, v.Columns, v.Rows = Clean(v.Name), cleanAll(v.Columns), slices.Clone(v.Rows)
		for i := range v.Rows {
			v.Rows[i] = cleanAll(v.Rows[i])
		}
		s.Tables = append(s.Tables, v)
	case Evidence:
		s.Folder, s.Lab = Clean(v.Folder), Clean(v.Lab)
	case Lack:
		s.Lacks = v
	}
}

func cleanAll(texts []string) []string {
	texts = slices.Clone(texts)
	for i := range texts {
		texts[i] = Clean(texts[i])
	}
	return texts
}

// Clean takes ginkgo's colours and every other control character out of text, which may quote what a client sent.
func Clean(text string) string {
	text = regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(text, "")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return '\ufffd'
		}
		return r
	}, text)
}

// ThisHost describes this machine.
func ThisHost() Host {
	h := Host{Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Go: runtime.Version()}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		h.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	return h
}

// Names of the files that [Report.Write] makes.
const (
	JSONFile  = "report.json"
	JUnitFile = "junit.xml"
	HTMLFile  = "report.html"
)

// Write makes the three files in folder, which is made if it is missing.
func (r *Report) Write(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // a report is for everyone to read
		return fmt.Errorf("make the report's folder: %w", err)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", JSONFile, err)
	}
	page, err := r.HTML()
	if err != nil {
		return fmt.Errorf("write %s: %w", HTMLFile, err)
	}
	return errors.Join(
		writeFile(folder, JSONFile, append(text, '\n')),
		writeFile(folder, HTMLFile, page),
		r.writeJUnit(folder),
	)
}

func (r *Report) writeJUnit(folder string) error {
	err := reporters.GenerateJUnitReportWithConfig(r.ginkgo, filepath.Join(folder, JUnitFile), reporters.JunitReportConfig{
		OmitTimelinesForSpecState: types.SpecStatePassed | types.SpecStateSkipped,
		OmitSuiteSetupNodes:       true,
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", JUnitFile, err)
	}
	return nil
}

func writeFile(folder, name string, content []byte) error {
	if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil { //nolint:gosec // a report is for everyone to read
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
