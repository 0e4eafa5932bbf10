// Package runner runs scenario suites from an ordinary program, as `go test` does from a test binary.
//
// The suites are whatever specs the program has imported; a suite's name is the first label of its specs' outermost
// container. [Run] chooses among them, prints a line as each promise is kept or broken, and returns the report. Ginkgo allows
// one run a process. Only here do suite-level nodes exist: two suites with nodes of their own could not be in one binary.
package runner

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/formatter"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// Options are what to run and how.
type Options struct {
	// Suites are the suites to run; none: all.
	Suites []string
	// LabelFilter is ginkgo's, such as "!slow && (ipv6 || tls)".
	LabelFilter string
	// Seed decides the order of specs and all that they draw; 0: the time.
	Seed int64
	// Scale multiplies how many clients specs use; 0: 1.
	Scale float64
	// Shard is which part of the promises to run, of how many; the zero value: all. Every promise is in one part, whatever the seed.
	Shard Shard
	// Repeat is how often each promise is tried, until it breaks; 0: once.
	Repeat int
	// Target is the product that specs run against; the zero value: brokerlab's own broker.
	Target stage.Product
	// Workers is where the workers of large fleets wait, as TOPIC@HOST:PORT, and WorkersConfig a client.properties for that cluster;
	// empty: they are processes that the run starts.
	Workers, WorkersConfig string
	// Folder is where failed specs save what is known of them; empty: nowhere.
	Folder string
	// Keep leaves the lab of a failed spec standing.
	Keep bool
	// Capture records the broker's packets, and saves those of failed specs in Folder.
	Capture bool
	// Heartbeat is how long a promise may take before a line says that it still runs; 0: 10 s.
	Heartbeat time.Duration
	// Out gets a line for each promise.
	Out io.Writer
	// Live says that Out is a terminal: the promise that is tried is shown on its last line, which the next line replaces.
	Live bool
}

// Shard is one of several parts of a run, counted from 1.
type Shard struct{ Part, Of int }

// ParseShard reads PART/OF, such as 1/4.
func ParseShard(text string) (Shard, error) {
	part, of, ok := strings.Cut(text, "/")
	k, err := strconv.Atoi(part)
	n, err2 := strconv.Atoi(of)
	if !ok || err != nil || err2 != nil || k < 1 || k > n {
		return Shard{}, &SelectionError{fmt.Sprintf("shard %q: want PART/OF, such as 1/4", text)}
	}
	return Shard{k, n}, nil
}

func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Part, s.Of) }

// SelectionError says that a choice of specs makes no sense.
type SelectionError struct{ Text string }

func (e *SelectionError) Error() string { return e.Text }

// verdict is what ginkgo needs in place of a test.
type verdict struct{ failed bool }

// Fail is called by ginkgo.
func (t *verdict) Fail() { t.failed = true }

// Run runs the chosen specs, one after another, and returns the report of them. An error means that there was nothing to
// run; specs that fail are in the report. An interrupt of the process ends the spec that runs, which cleans up, and the run.
func Run(o Options) (*report.Report, error) {
	suite, reporter := ginkgo.GinkgoConfiguration()
	if err := o.tellStage(); err != nil { // before the specs' tree is built: how long they may take is in it
		return nil, err
	}
	if err := o.choose(&suite); err != nil {
		return nil, err
	}
	suite.MustPassRepeatedly = o.Repeat
	if suite.RandomSeed = o.Seed; o.Seed == 0 {
		suite.RandomSeed = time.Now().Unix()
	}
	reporter.NoColor, reporter.Succinct = true, true
	total := count(ginkgo.PreviewSpecs(runName, suite, reporter))
	if total == 0 {
		return nil, &SelectionError{fmt.Sprintf("no promise matches the filter %q", suite.LabelFilter)}
	}
	p := &progress{out: o.Out, total: total, heartbeat: o.Heartbeat, live: o.Live}
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.BeforeEach(stage.SkipForTarget)
	ginkgo.ReportBeforeEach(p.begin)
	ginkgo.ReportAfterEach(p.end)
	var run types.Report
	ginkgo.ReportAfterSuite("report", func(r ginkgo.Report) { run = r })
	formatter.ColorableStdOut = io.Discard // progress is ours to print
	var t verdict
	ginkgo.RunSpecs(&t, runName, suite, reporter)
	p.stop()
	r := report.New(runName, run)
	r.Target = o.Target.Title()
	r.Succeeded = r.Succeeded && !t.failed
	return r, nil
}

// tellStage sets the environment variables that the stage reads.
func (o *Options) tellStage() error {
	set := map[string]string{stage.TargetVariable: o.Target.String()}
	if o.Workers != "" {
		if _, _, err := stage.ParseWorkers(o.Workers); err != nil {
			return &SelectionError{"workers " + err.Error()}
		}
		set[stage.WorkersVariable], set[stage.WorkersConfigVariable] = o.Workers, o.WorkersConfig
	}
	if o.Scale != 0 {
		set[stage.ScaleVariable] = strconv.FormatFloat(o.Scale, 'g', -1, 64)
	}
	if o.Folder != "" {
		set[stage.ReportVariable] = o.Folder
	}
	if o.Keep {
		set[stage.KeepVariable] = "1"
	}
	if o.Capture {
		set[stage.CaptureVariable] = "1"
	}
	for name, value := range set {
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// choose sets what ginkgo is to run.
func (o *Options) choose(suite *types.SuiteConfig) error {
	filter, err := o.filter()
	if err != nil {
		return err
	}
	suite.LabelFilter, suite.FocusStrings = filter, nil // ginkgo keeps what it was given last
	if o.Shard.Of <= 1 {
		return nil
	}
	whole := *o
	whole.Shard = Shard{}
	promises, err := List(whole)
	if err != nil {
		return err
	}
	var mine []string
	for i := o.Shard.Part - 1; i < len(promises); i += o.Shard.Of {
		mine = append(mine, regexp.QuoteMeta(promises[i].Name))
	}
	if len(mine) == 0 {
		return &SelectionError{fmt.Sprintf("shard %v is empty: there are %d promises", o.Shard, len(promises))}
	}
	suite.FocusStrings = []string{"^" + regexp.QuoteMeta(runName) + " (?:" + strings.Join(mine, "|") + ")$"}
	return nil
}

// runName is what ginkgo calls the run.
const runName = "brokerlab"

// filter joins the suites' names and the label filter.
func (o *Options) filter() (string, error) {
	if _, err := types.ParseLabelFilter(o.LabelFilter); err != nil {
		return "", &SelectionError{fmt.Sprintf("label filter %q: %s", o.LabelFilter, firstLine(err))}
	}
	known := Suites()
	for _, name := range o.Suites {
		if !slices.Contains(known, name) {
			return "", &SelectionError{fmt.Sprintf("there is no suite %q: use %s", name, strings.Join(known, ", "))}
		}
	}
	filter := strings.Join(o.Suites, " || ")
	switch {
	case o.LabelFilter == "":
		return filter, nil
	case filter == "":
		return o.LabelFilter, nil
	}
	return "(" + filter + ") && (" + o.LabelFilter + ")", nil
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(strings.TrimSpace(report.Clean(err.Error())), "\n")
	return line
}

// Suites lists the suites of this program.
func Suites() []string {
	config, reporter := ginkgo.GinkgoConfiguration()
	config.LabelFilter, config.FocusStrings = "", nil // ginkgo keeps what it was given last
	all := ginkgo.PreviewSpecs(runName, config, reporter)
	var names []string
	for i := range all.SpecReports {
		if name := report.SuiteOf(&all.SpecReports[i]); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Promise is a spec that could be run.
type Promise struct {
	Suite  string   `json:"suite"`
	Name   string   `json:"name"`
	Labels []string `json:"labels"`
	Skips  string   `json:"skips,omitempty"` // why it is skipped against the target
}

// List lists the promises that o chooses, by suite and name.
func List(o Options) ([]Promise, error) {
	config, reporter := ginkgo.GinkgoConfiguration()
	if err := o.choose(&config); err != nil {
		return nil, err
	}
	all := ginkgo.PreviewSpecs(runName, config, reporter)
	var promises []Promise
	for i := range all.SpecReports {
		if s := &all.SpecReports[i]; chosen(s) {
			promises = append(promises, Promise{report.SuiteOf(s), s.FullText(), s.Labels(), o.Target.Lacks(s.Labels())})
		}
	}
	slices.SortFunc(promises, func(a, b Promise) int {
		return strings.Compare(a.Suite+"\x00"+a.Name, b.Suite+"\x00"+b.Name)
	})
	return promises, nil
}

func chosen(s *types.SpecReport) bool {
	return s.LeafNodeType.Is(types.NodeTypeIt) && !s.State.Is(types.SpecStateSkipped)
}

func count(all types.Report) int {
	n := 0
	for i := range all.SpecReports {
		if chosen(&all.SpecReports[i]) {
			n++
		}
	}
	return n
}

// progress prints a line for each promise, and beside it, while one is tried, a line that changes in place or a
// heartbeat when it takes long.
type progress struct {
	heartbeat time.Duration
	total     int
	live      bool

	mu     sync.Mutex // guards what follows
	out    io.Writer
	number int
	cancel func()
}

func (p *progress) begin(s ginkgo.SpecReport) {
	if s.State.Is(types.SpecStateSkipped | types.SpecStatePending) {
		return
	}
	every := p.heartbeat
	switch {
	case every != 0:
	case p.live:
		every = time.Second
	default:
		every = 10 * time.Second
	}
	begun, done := time.Now(), make(chan struct{})
	p.still(s.FullText(), 0)
	var beats sync.WaitGroup
	beats.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.still(s.FullText(), time.Since(begun))
			case <-done:
				return
			}
		}
	})
	p.mu.Lock()
	p.cancel = sync.OnceFunc(func() {
		close(done)
		beats.Wait()
	})
	p.mu.Unlock()
}

func (p *progress) stop() {
	p.mu.Lock()
	cancel := p.cancel
	p.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// still says that a promise is being tried, and for how long: in place on a terminal, else a line once it has been for a while.
func (p *progress) still(name string, spent time.Duration) {
	const width = 80 // leaves room for the numbers on a narrow terminal
	switch {
	case p.live:
		if runes := []rune(name); len(runes) > width {
			name = string(runes[:width-1]) + "…"
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		_, _ = fmt.Fprintf(p.out, "\r\x1b[K… [%d/%d] %s %s", p.number+1, p.total, name, spent.Round(time.Second))
	case spent > 0:
		p.print("%s\n", fold(fmt.Sprintf("… %s: %s so far", name, spent.Round(time.Second))))
	}
}

func (p *progress) print(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		format = "\r\x1b[K" + format
	}
	_, _ = fmt.Fprintf(p.out, format, args...) // nobody to tell if nobody can be told
}

func (p *progress) end(s ginkgo.SpecReport) {
	p.stop()
	if s.State.Is(types.SpecStateSkipped) && s.Failure.Message == "" {
		return // not chosen
	}
	p.mu.Lock()
	p.number++
	p.mu.Unlock()
	mark, rest := "✓", ""
	message := strings.TrimSpace(report.Clean(s.Failure.Message))
	switch report.StateOf(&s) {
	case report.Failed:
		mark, rest = "✗", indent(message)
	case report.Skipped:
		mark, rest = "–", indent("skipped: "+message)
	case report.Passed:
	}
	name := s.FullText()
	if suite := report.SuiteOf(&s); suite != "" {
		name = suite + ": " + name
	}
	line := fmt.Sprintf("%s [%d/%d] %s (%s)", mark, p.number, p.total, name, s.RunTime.Round(10*time.Millisecond))
	p.print("%s\n%s", fold(line), rest)
}

// indent shortens a message to what a terminal can bear; the report has all of it.
func indent(message string) string {
	lines := strings.Split(message, "\n")
	const most = 12
	if len(lines) > most {
		lines = append(lines[:most], fmt.Sprintf("… %d more lines in the report", len(lines)-most))
	}
	for i, line := range lines {
		lines[i] = fold(margin + line)
	}
	return strings.Join(lines, "\n") + "\n"
}

// What is printed of a promise is at most lineWidth wide, and all below its first line is set in by margin.
const (
	lineWidth = 100
	margin    = "      "
)

// fold breaks a line that is too wide between words; what follows is set in. A word that is too wide by itself stays whole, so
// that it can be copied.
func fold(line string) string {
	var done strings.Builder
	for utf8.RuneCountInString(line) > lineWidth {
		at := breakAt(line)
		if at < 0 {
			break
		}
		done.WriteString(line[:at] + "\n")
		line = margin + line[at+1:]
	}
	return done.String() + line
}

// breakAt is the last space at which a line fits, else the first there is; -1 without one.
func breakAt(line string) int {
	at, column := -1, 0
	for i, r := range line {
		if r == ' ' && column >= len(margin) {
			if column > lineWidth && at >= 0 {
				return at
			}
			at = i
			if column > lineWidth {
				return at
			}
		}
		column++
	}
	return at
}

// ErrInterrupted is returned by [Verdict] for a run that somebody ended.
var ErrInterrupted = errors.New("the run was interrupted")

// ErrNothingTried is returned by [Verdict] when every promise was skipped.
var ErrNothingTried = errors.New("every promise was skipped")

// ErrKernelLacks is returned by [Verdict] when no promise was broken, but some could not be tried for want of a feature of the
// kernel.
var ErrKernelLacks = errors.New("this kernel lacks what they need")

// Verdict is nil for a report in which at least one promise was kept and none was broken, nor skipped because of the kernel. What the
// target cannot do by its nature is no fault of the run: such promises may be skipped.
func Verdict(r *report.Report) error {
	switch {
	case slices.ContainsFunc(r.Problems, func(p string) bool { return strings.HasPrefix(p, "Interrupted") }):
		return ErrInterrupted
	case !r.Succeeded:
		return fmt.Errorf("%d of %d promises broken", r.Totals.Failed, r.Totals.Specs)
	case lacking(r) > 0:
		return fmt.Errorf("%d of %d promises were skipped: %w", lacking(r), r.Totals.Specs, ErrKernelLacks)
	case r.Totals.Passed == 0:
		for i := range r.Specs {
			if m := r.Specs[i].Message; m != "" {
				return fmt.Errorf("%w: %s", ErrNothingTried, m)
			}
		}
		return ErrNothingTried
	}
	return nil
}

// lacking counts the promises that were skipped because of the kernel.
func lacking(r *report.Report) int {
	n := 0
	for i := range r.Specs {
		if r.Specs[i].State == report.Skipped && r.Specs[i].Lacks == report.LackKernel {
			n++
		}
	}
	return n
}
