//go:build linux

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/scenarios/connbench"
)

// benchOptions are the flags of brokerlab bench connections.
type benchOptions struct {
	benchTarget
	benchProducts

	steps      []int
	most       int
	rate       float64
	parallel   int
	timeout    time.Duration
	maxLatency time.Duration
	warmUp     int
	settle     time.Duration
	atLimit    bool
	collect    bool
	yes        bool
	format     format
	save       string
	report     string
	compare    []string
}

func newBenchConnections(env Env) *cobra.Command {
	var o benchOptions
	c := &cobra.Command{
		Use:   "connections (--bootstrap-server HOST:PORT | --lab LAB | --target PRODUCT)",
		Short: "Ramp connections until a limit, and tell what each costs",
		Long: `Open connections step by step, hold them, and tell after each step how long clients took and what they cost: connections
a second, the times to TCP, TLS and the first response, processor time and memory of the target by connection (right
after the storm, and idle), the kernel's memory, and how long a list of all connections takes.

Any Kafka broker can be the target, by the addresses of --bootstrap-server (connections go to them in turn, not to others of
the cluster) or as a node of a lab. --command-config says whether they use TLS, a client certificate or SASL. Memory and
processor time are known for a node of a lab and with --pid for a process of this machine. Without
--compare, --rate and --steps, the steps are the powers of ten up to --max.

--target brings the target up first, in a lab of its own, which is removed in the end, after an interrupt too: brokerlab's broker, or
Apache Kafka (get it by "brokerlab kafka fetch") with the heap that its own scripts give it, unless KAFKA_HEAP_OPTS says otherwise.
Several of them are measured one after another and laid side by side; --save then makes a file for each, such as
run-kafka-4.4.0.json of run.json. --gc makes the memory of Java that of what it uses.

The run ends at --max, at the first client that fails, or where 99 % of first responses take longer than --max-latency. Under
Kafka's rules nothing fails at most limits: a connection waits. So a first response that takes longer than
--timeout is a failure, and the verdict names the limit that was reached, read from the target's configs, or what else it
was: a shortage of the clients' side (ports, files) is told apart from what the target did.

With --at-limit it goes on there: how soon the next client is let in when a slot is freed, how long requests of the clients
inside take meanwhile, and whether a creation rate lets through what Kafka's rule says (with its burst, see
docs/benchmark-limits.md).

--compare lays runs side by side that were saved before; without a target it only does that. A target that is neither in
a lab nor on the loopback needs --yes, or is asked for.

Needs the rights of a client that only connects; for the limits DESCRIBE_CONFIGS and for the list DESCRIBE on the cluster.
Exit status: 0 the run came to a verdict; 1 it could not begin, or was interrupted.`,
		Example: `  brokerlab bench connections --bootstrap-server localhost:9092 --max 1000
  brokerlab bench connections --bootstrap-server localhost:9093 --command-config client.properties \
      --pid $(pgrep -f server.properties) --steps 100,1000,5000 --report run.html --save run.json
  brokerlab bench connections --bootstrap-server localhost:9093 --max 20000 --at-limit
  sudo brokerlab bench connections --lab quickstart --listener SSL --max 2000
  sudo brokerlab bench connections --target broker --target kafka --listener SSL --max 1000 \
      --gc --report run.html
  sudo brokerlab bench connections --target kafka --config max.connections=200 --at-limit
  brokerlab bench connections --compare before.json --compare after.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return runBenchConnections(c.Context(), env, &o) },
	}
	o.benchTarget.flags(c)
	o.benchProducts.flags(c)
	f := c.Flags()
	f.IntSliceVar(&o.steps, "steps", nil, "numbers of connections to stop and measure at, such as 100,1000,5000")
	f.Lookup("steps").DefValue = "" // powers of ten
	f.IntVar(&o.most, "max", 0, "`connections` at the last step (10000 unless --steps are given)")
	f.Float64Var(&o.rate, "rate", 0, "connections to begin a second; 0: as fast as possible")
	f.IntVar(&o.parallel, "parallel", 48, "how many clients may be connecting at a time")
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "a first response that takes `longer` is a failure")
	f.DurationVar(&o.maxLatency, "max-latency", 0, "end where 99 % of first responses took longer; 0: no bound")
	f.IntVar(&o.warmUp, "warm-up", -1, "`connections` that come and go before the first step (-1: a tenth of the last step, at most 1,000)")
	f.DurationVar(&o.settle, "settle", 3*time.Second, "memory that has not fallen for this `time` is that of idle connections; 0: do not wait")
	f.BoolVar(&o.atLimit, "at-limit", false, "go on at the limit: admission, clients inside, rates")
	f.BoolVar(&o.collect, "gc", false, "let a Java target collect its garbage before memory is read (jcmd; it stops for a moment)")
	f.BoolVar(&o.yes, "yes", false, "load a target outside of labs and loopback without asking")
	f.StringVar(&o.save, "save", "", "write the run as JSON to `FILE`, for --compare")
	f.StringVar(&o.report, "report", "", "write a report with plots to `FILE` (HTML)")
	f.StringArrayVar(&o.compare, "compare", nil, "lay a saved run beside this one, `FILE`; may be repeated")
	addFormat(c, &o.format)
	return c
}

// ramp makes the steps of the flags.
func (o *benchOptions) ramp() ([]int, error) {
	const usual = 10000
	most := o.most
	if most == 0 && len(o.steps) == 0 {
		most = usual
	}
	steps := slices.Clone(o.steps)
	if len(steps) == 0 {
		const first, factor = 100, 10
		for n := first; n < most; n *= factor {
			steps = append(steps, n)
		}
	}
	if most != 0 {
		steps = append(slices.DeleteFunc(steps, func(n int) bool { return n >= most }), most)
	}
	if steps[0] < 1 || !slices.IsSorted(steps) {
		return nil, fmt.Errorf("--steps %v: each must be more than the one before, and --max more than nothing", steps)
	}
	return slices.Compact(steps), nil
}

func runBenchConnections(ctx context.Context, env Env, o *benchOptions) error {
	others, err := loadRuns(o.compare)
	if err != nil {
		return err
	}
	if !o.given() && len(o.targets) == 0 {
		if len(others) == 0 {
			return usage("what to measure: --bootstrap-server, --lab or --target (or --compare saved runs)")
		}
		return o.printCompared(env, others)
	}
	steps, err := o.ramp()
	if err != nil {
		return &ExitError{Code: 2, Err: err}
	}
	switch {
	case len(o.targets) > 0:
		return o.runProducts(ctx, env, others)
	case len(o.configs) > 0:
		return usage("--config is for --target: another target has its configs already")
	}
	options, release, err := o.open(ctx, env, slices.Max(steps), o.yes)
	if err != nil {
		return err
	}
	defer release()
	err = o.fill(options)
	if err != nil {
		return err
	}
	p := newProgress(env.Stderr)
	options.Watch = func(l connbench.Live) { p.set(liveText(&l)) }
	result, err := connbench.Run(ctx, options)
	p.stop()
	if result == nil {
		return err
	}
	if written := o.write(env, result, others); written != nil || err != nil {
		return errors.Join(err, written)
	}
	if result.Verdict.Kind == connbench.EndInterrupted {
		return &ExitError{Code: 1}
	}
	return nil
}

// fill puts what the flags say about the load into options.
func (o *benchOptions) fill(options *connbench.Options) error {
	steps, err := o.ramp()
	if err != nil {
		return err
	}
	options.Steps, options.Rate, options.Parallel, options.Timeout, options.MaxLatency = steps, o.rate, o.parallel, o.timeout, o.maxLatency
	options.Settle, options.AtLimit, options.Collect, options.WarmUp = o.settle, o.atLimit, o.collect, o.warmUp
	if o.warmUp < 0 {
		const share, most = 10, 1000
		options.WarmUp = min(slices.Max(steps)/share, most)
	}
	return nil
}

// liveText is a run's state in a line.
func liveText(l *connbench.Live) string {
	text := fmt.Sprintf("%s: %d", l.Doing, l.Connections)
	if l.Want > 0 {
		text += fmt.Sprintf(" of %d", l.Want)
	}
	text += fmt.Sprintf(" connections, %.0f/s", l.PerSecond)
	if l.Failed > 0 {
		text += fmt.Sprintf(", %d failed", l.Failed)
	}
	if l.Memory > 0 {
		text += fmt.Sprintf(", target %s and %.1f cores", connbench.FormatSize(float64(l.Memory)), max(0, l.Cores))
	}
	return text + fmt.Sprintf(", %.0f s", l.Elapsed.Seconds())
}

// write prints the run and writes the files that were asked for.
func (o *benchOptions) write(env Env, r *connbench.Result, others []connbench.Named) error {
	var errs []error
	if o.save != "" {
		errs = append(errs, writeTo(o.save, func(f *os.File) error { return printJSON(f, r) }))
	}
	if o.report != "" {
		page, err := r.HTML(others)
		errs = append(errs, err)
		if err == nil {
			errs = append(errs, writeTo(o.report, func(f *os.File) error { _, err := f.Write(page); return err }))
		}
	}
	if o.format == formatJSON {
		return errors.Join(append(errs, printJSON(env.Stdout, r))...)
	}
	var text strings.Builder
	text.WriteString(strings.Join(r.Describe(), "\n") + "\n\n")
	columns(&text, r.Table(), 0)
	if len(others) > 0 {
		text.WriteByte('\n')
		columns(&text, connbench.Compare(append([]connbench.Named{{Name: r.Name(), Result: r}}, others...)), 0)
	}
	text.WriteString("\n" + strings.Join(r.Findings(), "\n") + "\n")
	if o.report != "" && errors.Join(errs...) == nil {
		text.WriteString("report: " + o.report + "\n")
	}
	_, err := env.Stdout.Write([]byte(text.String()))
	return errors.Join(append(errs, err)...)
}

// printCompared lays saved runs side by side.
func (o *benchOptions) printCompared(env Env, runs []connbench.Named) error {
	rows := connbench.Compare(runs)
	if o.report != "" {
		page, err := runs[0].Result.HTML(runs[1:])
		if err != nil {
			return err
		}
		if err := writeTo(o.report, func(f *os.File) error { _, err := f.Write(page); return err }); err != nil {
			return err
		}
	}
	if o.format == formatJSON {
		return printJSON(env.Stdout, rows)
	}
	if len(rows) == 1 {
		return errors.New("no two of these runs have a step in common")
	}
	var text strings.Builder
	columns(&text, rows, 0)
	for _, r := range runs {
		what := r.Name + ": " + strings.Join(r.Result.Describe(), "; ")
		text.WriteString("\n" + fold(what, summaryWidth) + "\n" + fold(r.Result.Verdict.Text, summaryWidth) + "\n")
	}
	if o.report != "" {
		text.WriteString("\nreport: " + o.report + "\n")
	}
	_, err := env.Stdout.Write([]byte(text.String()))
	return err
}

// loadRuns reads saved runs and calls them by their files.
func loadRuns(paths []string) ([]connbench.Named, error) {
	runs := make([]connbench.Named, 0, len(paths))
	for _, path := range paths {
		r, err := connbench.Read(path)
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		if slices.ContainsFunc(runs, func(n connbench.Named) bool { return n.Name == name }) {
			name = path
		}
		runs = append(runs, connbench.Named{Name: name, Result: r})
	}
	return runs, nil
}

func writeTo(path string, write func(*os.File) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
