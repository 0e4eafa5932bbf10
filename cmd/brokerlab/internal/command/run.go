//go:build linux

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	_ "github.com/brokerlab/brokerlab/scenarios/accounting" // registers its specs
	_ "github.com/brokerlab/brokerlab/scenarios/acl"        // registers its specs
	_ "github.com/brokerlab/brokerlab/scenarios/cluster"    // registers its specs
	_ "github.com/brokerlab/brokerlab/scenarios/configpush" // registers its specs
	_ "github.com/brokerlab/brokerlab/scenarios/hostile"    // registers its specs
	_ "github.com/brokerlab/brokerlab/scenarios/limits"     // registers its specs
	_ "github.com/brokerlab/brokerlab/scenarios/listing"    // registers its specs
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/runner"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// runOptions are the flags of brokerlab run.
type runOptions struct {
	filter string
	folder string
	seed   int64
	scale  float64
	list   bool
	format format
	shard  string
	repeat int
	keep   bool
	pcap   bool
	target string

	workers, workersConfig string
}

func newRun(env Env) *cobra.Command {
	var o runOptions
	c := &cobra.Command{
		Use:   "run [SUITE …]",
		Short: "Run scenario suites against a broker in a lab",
		Long: `Run scenario suites: each promise brings up a lab of its own with a broker, drives clients from its subnets, and compares
what clients, broker and kernel say. Without a SUITE all of them run. A line tells of each promise as it is kept, broken or
skipped. Labs need root.

With --report-dir the folder gets report.html (one file, for people), report.json and junit.xml, and for each broken
promise a folder below failed/: the broker's log and properties, its list of connections, the kernel's counts and sockets, what
each client saw, and with --pcap the broker's packets. With --keep the lab of a broken promise is left standing, to be looked
into by lab exec and removed by lab down.

With --target kafka the same promises are asked of Apache Kafka, in a node of its own in each lab; the kernel counts its connections as
it does those of brokerlab's broker. A promise about something that Kafka does not have (a list of connections, pushed configurations,
max.ssl.connections, metrics over HTTP) is skipped by name, with the reason, which --list shows too. A start of Kafka takes
some seconds. Get it by "brokerlab kafka fetch".

Fleets that are too large for one process are split over processes of this machine; with --workers over those that wait at a
topic (brokerlab fleet worker), which must be able to enter the labs' network namespaces: as root on this machine, in
containers or cgroups of their own. One has to wait there when the run begins. A worker that dies breaks the promise that it worked for, by name.

--repeat tries each promise again and again, until it breaks. --shard 1/4 to 4/4 are four parts of the whole, for four
machines. Exit status: 0 every promise was kept, but for those that need root or what the target does not have; 1 one was
broken; 2 nothing could be run, or the run was interrupted; 3 none was broken, but some were skipped because this kernel
lacks a feature.`,
		Example: `  sudo brokerlab run --report-dir report
  sudo brokerlab run listing --scale 0.1
  sudo brokerlab run listing --repeat 10 --keep
  sudo brokerlab run --shard 1/4 --report-dir report --pcap
  sudo brokerlab run limits --target kafka --scale 0.5
  brokerlab run --list`,
		RunE: func(c *cobra.Command, suites []string) error { return runSuites(c.Context(), env, suites, &o) },
	}
	f := c.Flags()
	f.StringVar(&o.filter, "label-filter", "", "run only specs whose labels match, such as \"listing && !slow\"")
	f.StringVar(&o.folder, "report-dir", "", "write the report into `DIR`")
	f.Int64Var(&o.seed, "seed", 0, "the order of specs and all that they draw; 0 takes the time")
	f.Float64Var(&o.scale, "scale", 1, "multiply the number of clients by `F`")
	f.BoolVar(&o.list, "list", false, "list the promises and run nothing")
	f.StringVar(&o.target, "target", "broker", "the `PRODUCT` to hold to its promises: broker, kafka or kafka:VERSION, such as kafka:4.3.0")
	f.StringVar(&o.shard, "shard", "", "run only one part of several, as `PART/OF`, such as 1/4")
	f.IntVar(&o.repeat, "repeat", 1, "try each promise `N` times, until it breaks")
	f.BoolVar(&o.keep, "keep", false, "leave the lab of a broken promise standing")
	f.BoolVar(&o.pcap, "pcap", false, "save the broker's packets for each broken promise, up to 64 MB of headers; needs --report-dir")
	f.StringVar(&o.workers, "workers", "", "split large fleets over the workers at a `TOPIC@HOST:PORT`")
	f.StringVar(&o.workersConfig, "workers-config", "", "a client.properties `file` for the cluster of --workers")
	addFormat(c, &o.format)
	f.Lookup("format").Usage = "how to print --list"
	return c
}

// runnerOptions checks the flags and makes the runner's options of them.
func (o *runOptions) runnerOptions(suites []string, out io.Writer) (runner.Options, error) {
	options := runner.Options{
		Suites: suites, LabelFilter: o.filter, Seed: o.seed, Scale: o.scale, Repeat: o.repeat,
		Folder: o.folder, Keep: o.keep, Capture: o.pcap, Out: out, Live: isTerminal(out),
		Workers: o.workers, WorkersConfig: o.workersConfig,
	}
	switch {
	case o.scale <= 0 || math.IsNaN(o.scale) || math.IsInf(o.scale, 0):
		return options, fmt.Errorf("--scale %v: it must be above 0", o.scale)
	case o.repeat < 1:
		return options, fmt.Errorf("--repeat %d: it must be above 0", o.repeat)
	case o.workers == "" && o.workersConfig != "":
		return options, errors.New("--workers-config needs --workers")
	case o.pcap && o.folder == "":
		return options, errors.New("--pcap needs --report-dir, to save the packets in")
	}
	var err error
	if options.Target, err = stage.ParseTarget(o.target); err != nil {
		return options, fmt.Errorf("--target: %w", err)
	}
	if o.shard != "" {
		options.Shard, err = runner.ParseShard(o.shard)
	}
	return options, err
}

func runSuites(ctx context.Context, env Env, suites []string, o *runOptions) error {
	options, err := o.runnerOptions(suites, env.Stdout)
	if err != nil {
		return &ExitError{Code: 2, Err: err}
	}
	promises, err := runner.List(options)
	if err != nil {
		return &ExitError{Code: 2, Err: err}
	}
	if o.list {
		if o.format == formatJSON {
			return printJSON(env.Stdout, promises)
		}
		return printPromises(env.Stdout, promises)
	}
	if len(promises) == 0 {
		return &ExitError{Code: 2, Err: fmt.Errorf("no promise matches the filter %q", o.filter)}
	}
	if err = options.Target.Find(); err != nil {
		return &ExitError{Code: 2, Err: fmt.Errorf("--target %s: %w", o.target, err)}
	}
	if o.workers != "" {
		if err = stage.FindWorkers(ctx, o.workers, o.workersConfig); err != nil {
			return &ExitError{Code: 2, Err: err}
		}
	}
	release, err := stage.Prepare(ctx, func() { _, _ = fmt.Fprintln(env.Stdout, "waiting for another run of scenarios on this machine") })
	if err != nil {
		return &ExitError{Code: 2, Err: err}
	}
	defer release() //nolint:errcheck // nothing was written
	r, err := runner.Run(options)
	if err != nil {
		return &ExitError{Code: 2, Err: err}
	}
	if err := printSummary(env.Stdout, r); err != nil {
		return &ExitError{Code: 2, Err: err}
	}
	if o.folder != "" {
		if err := r.Write(o.folder); err != nil {
			return &ExitError{Code: 2, Err: err}
		}
	}
	if err := printBroken(env.Stdout, r, o.folder); err != nil {
		return &ExitError{Code: 2, Err: err}
	}
	switch err := runner.Verdict(r); {
	case errors.Is(err, runner.ErrNothingTried), errors.Is(err, runner.ErrInterrupted):
		return &ExitError{Code: 2, Err: err}
	case errors.Is(err, runner.ErrKernelLacks):
		return &ExitError{Code: 3, Err: err}
	case err != nil:
		return &ExitError{Code: 1, Err: err}
	}
	return nil
}

// printPromises prints a row for each promise; long names go on below their beginning. Those that would be skipped come last,
// below the reason why.
func printPromises(w io.Writer, promises []runner.Promise) error {
	suiteWidth := 0
	for _, p := range promises {
		suiteWidth = max(suiteWidth, utf8.RuneCountInString(p.Suite)+columnGap)
	}
	rows := map[string][][]string{} // by the reason to skip them
	for _, p := range promises {
		for i, line := range strings.Split(fold(p.Name, summaryWidth-suiteWidth), "\n") {
			if i > 0 {
				p.Suite = ""
			}
			rows[p.Skips] = append(rows[p.Skips], []string{p.Suite, line})
		}
	}
	var text strings.Builder
	for _, why := range slices.Sorted(maps.Keys(rows)) {
		if why != "" {
			text.WriteString("\n" + fold("Skipped: "+why, summaryWidth) + "\n")
		}
		columns(&text, rows[why], 0)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// columnGap is the space between two columns.
const columnGap = 2

// summaryWidth is how wide the summary of a run is at most, and figuresShown how many promises it shows the figures of.
const (
	summaryWidth = 100
	figuresShown = 12
)

// printSummary prints what fits a screen: the suites, what was measured, what was broken, and the totals.
func printSummary(w io.Writer, r *report.Report) error {
	var text strings.Builder
	addSuites(&text, r)
	addFigures(&text, r)
	addLacking(&text, r)
	parts := []string{fmt.Sprintf("%d kept", r.Totals.Passed)}
	if r.Totals.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d BROKEN", r.Totals.Failed))
	}
	if r.Totals.Skipped > 0 {
		parts = append(parts, fmt.Sprintf("%d skipped", r.Totals.Skipped))
	}
	fmt.Fprintf(&text, "\n%d promises in %.0f s: %s (seed %d)\n", r.Totals.Specs, r.Seconds, strings.Join(parts, ", "), r.Seed)
	for _, p := range r.Problems {
		text.WriteString(p + "\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func addSuites(text *strings.Builder, r *report.Report) {
	type sum struct {
		kept, broken, skipped int
		seconds               float64
	}
	sums := map[string]*sum{}
	for i := range r.Specs {
		spec := &r.Specs[i]
		s := sums[spec.Suite]
		if s == nil {
			s = &sum{}
			sums[spec.Suite] = s
		}
		s.seconds += spec.Seconds
		switch spec.State {
		case report.Passed:
			s.kept++
		case report.Failed:
			s.broken++
		case report.Skipped:
			s.skipped++
		}
	}
	rows := [][]string{{"SUITE", "KEPT", "BROKEN", "SKIPPED", "SECONDS"}}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		s := sums[name]
		rows = append(rows, []string{
			name, strconv.Itoa(s.kept), strconv.Itoa(s.broken), strconv.Itoa(s.skipped), strconv.FormatFloat(s.seconds, 'f', 1, 64),
		})
	}
	text.WriteByte('\n')
	columns(text, rows, 0)
}

// addLacking writes what the target does not have, and which clients this machine has not, and how many promises were skipped for that.
func addLacking(text *strings.Builder, r *report.Report) {
	for _, part := range []struct {
		lack    report.Lack
		heading string
	}{
		{report.LackTarget, "Skipped against this target:"},
		{report.LackClient, "Skipped on this machine:"},
	} {
		skipped := map[string]int{}
		for i := range r.Specs {
			if s := &r.Specs[i]; s.State == report.Skipped && s.Lacks == part.lack {
				skipped[s.Message]++
			}
		}
		if len(skipped) > 0 {
			text.WriteString("\n" + part.heading + "\n")
		}
		for _, why := range slices.Sorted(maps.Keys(skipped)) {
			text.WriteString("  " + shorten(fmt.Sprintf("%d: %s", skipped[why], why), summaryWidth-2) + "\n")
		}
	}
}

// addFigures writes what promises measured, each below its name.
func addFigures(text *strings.Builder, r *report.Report) {
	shown := 0
	for i := range r.Specs {
		spec := &r.Specs[i]
		if len(spec.Figures) == 0 || spec.State != report.Passed || shown == figuresShown {
			continue
		}
		shown++
		if shown == 1 {
			text.WriteString("\nMeasured (more in the report):\n")
		}
		figures := make([]string, 0, len(spec.Figures))
		for _, f := range spec.Figures {
			figure := strings.TrimSpace(f.Name + " " + strconv.FormatFloat(f.Value, 'f', -1, 64) + " " + f.Unit)
			if f.Note != "" {
				figure += " (" + f.Note + ")"
			}
			figures = append(figures, figure)
		}
		text.WriteString("  " + shorten(spec.Name, summaryWidth-2) + "\n")
		text.WriteString("      " + shorten(strings.Join(figures, ", "), summaryWidth-6) + "\n")
	}
}

// printBroken ends the output of a run: where the report is, and then the broken promises again, whose lines may be far above by
// now, each with where to look.
func printBroken(w io.Writer, r *report.Report, folder string) error {
	var text strings.Builder
	if folder != "" {
		text.WriteString("report: " + filepath.Join(folder, report.HTMLFile) + "\n")
	}
	if r.Totals.Failed > 0 {
		text.WriteString("\nBroken:\n")
	}
	for i := range r.Specs {
		spec := &r.Specs[i]
		if spec.State != report.Failed {
			continue
		}
		message, _, _ := strings.Cut(spec.Message, "\n")
		text.WriteString("  " + shorten(spec.Suite+": "+spec.Name, summaryWidth-2) + "\n")
		text.WriteString("      " + shorten(message, summaryWidth-6) + "\n")
		if spec.Attempts > 1 {
			fmt.Fprintf(&text, "      broke at attempt %d\n", spec.Attempts)
		}
		if spec.Folder != "" {
			text.WriteString("      saved in " + filepath.Join(folder, spec.Folder) + "\n")
		}
		if spec.Lab != "" {
			fmt.Fprintf(&text, `      its lab still stands:
        brokerlab lab inspect %[1]s
        brokerlab lab exec %[1]s ops -- brokerlab connections list --bootstrap-server broker:9092
        brokerlab lab down %[1]s
`, spec.Lab)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// shorten cuts text to width columns.
func shorten(text string, width int) string {
	if runes := []rune(text); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}
