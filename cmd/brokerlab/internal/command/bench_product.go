//go:build linux

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/netlab/topology"
	"github.com/brokerlab/brokerlab/scenarios/connbench"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// benchProducts are the flags that bring up what is measured, in a lab of its own.
type benchProducts struct {
	targets []string
	configs []string
}

func (o *benchProducts) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringArrayVar(&o.targets, "target", nil, "bring up this `PRODUCT` in a lab of its own: broker, kafka or kafka:VERSION; may be repeated")
	f.StringArrayVar(&o.configs, "config", nil, "with --target: a `KEY=VALUE` of its server.properties; may be repeated")
}

// products reads the flags.
func (o *benchProducts) products() ([]stage.Product, error) {
	var all []stage.Product
	for _, text := range o.targets {
		p, err := stage.ParseTarget(text)
		if err != nil {
			return nil, &ExitError{Code: 2, Err: fmt.Errorf("--target: %w", err)}
		}
		if slices.Contains(all, p) {
			return nil, usage(fmt.Sprintf("--target %s is there twice: each run has its own place in the report", p))
		}
		if err := p.Find(); err != nil {
			return nil, fmt.Errorf("--target %s: %w", text, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// lab is the lab file of a product: one broker with the standard listeners, and a network of clients.
func (o *benchProducts) lab(name string, p stage.Product) (*topology.Lab, error) {
	config := map[string]topology.Text{}
	for _, property := range o.configs {
		key, value, ok := strings.Cut(property, "=")
		if !ok {
			return nil, usage(fmt.Sprintf("--config %q: want KEY=VALUE", property))
		}
		config[key] = topology.Text(value)
	}
	const node = "broker"
	n := p.Node(config, nil)
	if p.IsKafka() && os.Getenv("KAFKA_HEAP_OPTS") == "" {
		n.Env = map[string]topology.Text{"KAFKA_HEAP_OPTS": "-Xms1G -Xmx1G"} // as kafka-server-start.sh has it
	}
	file := &topology.File{
		Name: name, Nodes: map[string]topology.FileNode{node: n},
		Subnets: map[string]topology.FileSubnet{"clients": {CIDR: topology.Strings{"10.1.0.0/16"}}},
	}
	return file.Resolve("")
}

// benchLab is the name of a lab that a process made for its measurement.
func benchLab(pid, i int) string { return fmt.Sprintf("bench-%d-%d", pid, i) }

// sweepBenches removes the labs of measurements whose process was killed before it could.
func sweepBenches(ctx context.Context) error {
	names, err := netlab.List(netlab.Options{})
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		match := regexp.MustCompile(`^bench-(\d+)-\d+$`).FindStringSubmatch(name)
		if match == nil {
			continue
		}
		pid, _ := strconv.Atoi(match[1]) // digits
		if !errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			continue
		}
		if err := netlab.Down(ctx, name, netlab.Options{}); err != nil && !errors.Is(err, netlab.ErrNoLab) {
			errs = append(errs, fmt.Errorf("remove lab %s of a run that is over: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// runProducts measures products one after another and lays them side by side.
func (o *benchOptions) runProducts(ctx context.Context, env Env, others []connbench.Named) error {
	products, err := o.products()
	if err != nil {
		return err
	}
	if o.servers != "" || o.benchTarget.lab != "" {
		return usage("--target brings up a lab of its own: --bootstrap-server and --lab are other targets")
	}
	if err := netlab.Privileges(); err != nil {
		return err
	}
	if err := sweepBenches(ctx); err != nil {
		return err
	}
	var runs []connbench.Named
	for i, p := range products {
		result, err := o.inLab(ctx, env, p, i)
		if result != nil {
			runs = append(runs, connbench.Named{Name: p.String(), Result: result})
		}
		if err != nil {
			return errors.Join(err, o.writeRuns(env, runs, others))
		}
		if result.Verdict.Kind == connbench.EndInterrupted {
			return errors.Join(&ExitError{Code: 1}, o.writeRuns(env, runs, others))
		}
	}
	return o.writeRuns(env, runs, others)
}

// inLab measures one product. Its lab is removed whatever happens.
func (o *benchOptions) inLab(ctx context.Context, env Env, p stage.Product, i int) (result *connbench.Result, err error) {
	const upTime, downTime = 5 * time.Minute, time.Minute
	name := benchLab(os.Getpid(), i+1)
	topo, err := o.benchProducts.lab(name, p)
	if err != nil {
		return nil, err
	}
	progress := newProgress(env.Stderr)
	defer progress.stop()
	say := func(line string) { progress.set(p.Title() + ": " + line) }
	up, cancel := context.WithTimeoutCause(ctx, upTime, fmt.Errorf("not up within %v", upTime))
	defer cancel()
	lab, err := netlab.Up(up, topo, netlab.Options{Progress: say})
	if err != nil {
		return nil, err
	}
	defer func() {
		down, cancel := context.WithTimeout(context.WithoutCancel(ctx), downTime)
		defer cancel()
		err = errors.Join(err, lab.Down(down))
	}()
	target := o.benchTarget
	target.lab = name
	options, release, err := target.open(ctx, env, 0, true)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := o.fill(options); err != nil {
		return nil, err
	}
	options.Product = p.String()
	options.Watch = func(l connbench.Live) { say(liveText(&l)) }
	return connbench.Run(ctx, options)
}

// writeRuns prints what was measured and writes the files that were asked for.
func (o *benchOptions) writeRuns(env Env, runs, others []connbench.Named) error {
	switch len(runs) {
	case 0:
		return nil
	case 1:
		return o.write(env, runs[0].Result, others)
	}
	var errs []error
	if o.save != "" {
		for _, r := range runs {
			errs = append(errs, writeTo(saveName(o.save, r.Name), func(f *os.File) error { return printJSON(f, r.Result) }))
		}
	}
	if o.format == formatJSON && o.report == "" {
		results := make([]*connbench.Result, len(runs))
		for i := range runs {
			results[i] = runs[i].Result
		}
		return errors.Join(append(errs, printJSON(env.Stdout, results))...)
	}
	return errors.Join(append(errs, o.printCompared(env, append(slices.Clone(runs), others...)))...)
}

// saveName is where one of several runs is saved: run.json becomes run-kafka-4.4.0.json.
func saveName(path, run string) string {
	ext := filepath.Ext(path)
	return strings.TrimSuffix(path, ext) + "-" + strings.ReplaceAll(run, ":", "-") + ext
}
