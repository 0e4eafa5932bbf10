//go:build linux

package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/magiconair/properties"
	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/netlab/topology"
	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/reproduce"
)

type checkOptions struct {
	servers   string
	config    string
	principal string
	folder    string
	keep      bool
	wait      time.Duration
	format    format
}

func newCheck(env Env) *cobra.Command {
	var o checkOptions
	c := &cobra.Command{
		Use:   "check FILE",
		Short: "Ask whether a lab or cluster decides about access as a lab file expects",
		Long: `Bring up the lab of a lab file, with its topics and rules, and ask for every decision that the file expects: as that
principal, from that address, by a request that needs that right. A line tells of each: what was expected, what was seen, and
the rule that decides. Then the lab is removed, unless it was up before. brokerlab lab init writes such a file from a
cluster's rules.

With --bootstrap-server a cluster is asked instead of a lab, as one principal and from this machine. Then only requests are
sent that change nothing, and what they do not show is said to be unproven.

With --report-dir the folder gets report.html, report.json and junit.xml, as from brokerlab run.

Exit status: 0 every decision that was seen is as expected; 1 one is not; 2 the file is wrong, or something could not be asked.`,
		Example: `  sudo brokerlab check reproduced.yaml --report-dir report
  brokerlab check reproduced.yaml --bootstrap-server kafka1:9094 --command-config alice.properties`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error { return check(c.Context(), env, args[0], o) },
	}
	f := c.Flags()
	f.StringVar(&o.folder, "report-dir", "", "write the report into `DIR`")
	f.BoolVar(&o.keep, "keep", false, "leave the lab running")
	f.DurationVar(&o.wait, "wait", time.Minute, "how long the lab may take until every listener is open")
	f.StringVar(&o.servers, "bootstrap-server", "", "ask this cluster: `host:port` of one or more brokers, separated by commas")
	f.StringVar(&o.config, "command-config", "", "a client.properties `file`: how to authenticate and encrypt at that cluster")
	f.StringVar(&o.principal, "principal", "", "whom that cluster takes the client for; without it the user name of the file")
	addFormat(c, &o.format)
	return c
}

func check(ctx context.Context, env Env, path string, o checkOptions) error {
	could := func(err error) error { return &ExitError{Code: 2, Err: err} }
	file, err := topology.Load(path)
	if err == nil {
		err = o.readable(file)
	}
	if err != nil {
		return could(fmt.Errorf("lab file cannot be used:\n%w", err))
	}
	started := time.Now()
	p := newProgress(env.Stderr)
	tell := func(done, of int) { p.set(fmt.Sprintf("%d of %d decisions asked for", done, of)) }
	var results []reproduce.Result
	var clean error
	if o.servers != "" {
		results, err = o.checkCluster(ctx, env, file, tell)
	} else {
		results, clean, err = o.checkLab(ctx, file, p, tell)
	}
	p.stop()
	if err = errors.Join(err, clean); err != nil {
		return could(err)
	}
	if o.folder != "" {
		if err := reproduce.Report("brokerlab check "+path, path, results, started).Write(o.folder); err != nil {
			return could(err)
		}
	}
	if err := o.print(env.Stdout, path, results, time.Since(started)); err != nil {
		return could(err)
	}
	switch n := reproduce.Tally(results); {
	case n[reproduce.Mismatch] > 0:
		return &ExitError{Code: 1, Err: fmt.Errorf("%s of %d not as expected", plural(n[reproduce.Mismatch], "decision"), len(results))}
	case n[reproduce.Failed] > 0:
		return could(fmt.Errorf("%s of %d could not be asked for", plural(n[reproduce.Failed], "decision"), len(results)))
	}
	return nil
}

// readable tells what is wrong with the file's rules and expectations.
func (o *checkOptions) readable(file *topology.Lab) error {
	book, err := reproduce.Open(file)
	if err != nil || o.servers != "" {
		return err
	}
	return book.LogIns(file.Users)
}

// checkLab brings the lab up, asks, and removes it; clean is what went wrong with that.
func (o *checkOptions) checkLab(ctx context.Context, file *topology.Lab, p *progress, tell func(done, of int)) (results []reproduce.Result, clean, err error) {
	if o.config != "" || o.principal != "" {
		return nil, nil, errors.New("--command-config and --principal are for --bootstrap-server")
	}
	if len(file.Expect) == 0 {
		return nil, nil, errors.New("the lab file expects nothing: it has no key expect (brokerlab lab init writes one)")
	}
	names, err := netlab.List(netlab.Options{})
	if err != nil {
		return nil, nil, err
	}
	wasUp := slices.Contains(names, file.Name)
	up, cancel := context.WithTimeoutCause(ctx, o.wait, fmt.Errorf("not up within %v (--wait)", o.wait))
	lab, err := netlab.Up(up, file, netlab.Options{Progress: p.set})
	cancel()
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if wasUp || o.keep {
			clean = lab.Close()
			return
		}
		p.set("taking down " + lab.Name())
		down, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		clean = lab.Down(down)
	}()
	p.set("creating topics and rules")
	err = reproduce.Seed(ctx, lab, file)
	if err != nil {
		return nil, nil, err
	}
	results, err = reproduce.CheckLab(ctx, lab, file, tell)
	return results, nil, err
}

func (o *checkOptions) checkCluster(ctx context.Context, env Env, file *topology.Lab, tell func(done, of int)) ([]reproduce.Result, error) {
	seeds, config, err := loadClient(env, o.servers, o.config)
	if err != nil {
		return nil, err
	}
	principal, err := o.whom()
	if err != nil {
		return nil, err
	}
	return reproduce.CheckCluster(ctx, reproduce.Cluster{Servers: seeds, Config: config, Principal: principal}, file, tell)
}

// whom is the principal that a client.properties file makes.
func (o *checkOptions) whom() (string, error) {
	switch {
	case o.principal != "":
		return o.principal, nil
	case o.config == "":
		return "User:ANONYMOUS", nil
	}
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadFile(o.config)
	if err != nil {
		return "", fmt.Errorf("read client properties: %w", err)
	}
	switch protocol := strings.ToUpper(p.GetString("security.protocol", "PLAINTEXT")); {
	case protocol == "PLAINTEXT":
		return "User:ANONYMOUS", nil
	case strings.HasPrefix(protocol, "SASL"):
		_, rest, found := strings.Cut(p.GetString("sasl.jaas.config", ""), `username="`)
		if name, _, ended := strings.Cut(rest, `"`); found && ended && !strings.Contains(name, `\`) {
			return "User:" + name, nil
		}
	}
	return "", fmt.Errorf("%s does not say whom the cluster takes its user for: --principal does", o.config)
}

// print writes all results, then what is not as expected again, and the totals.
func (o *checkOptions) print(w io.Writer, path string, results []reproduce.Result, took time.Duration) error {
	n := reproduce.Tally(results)
	if o.format == formatJSON {
		return printJSON(w, struct {
			File    string                    `json:"file"`
			Results []reproduce.Result        `json:"results"`
			Totals  map[reproduce.Outcome]int `json:"totals"`
		}{path, results, n})
	}
	var text strings.Builder
	addResults(&text, results)
	for i := range results {
		r := &results[i]
		if r.Outcome != reproduce.Mismatch && r.Outcome != reproduce.Failed {
			continue
		}
		fmt.Fprintf(&text, "\n%s:%d: %s\n  expected %s, seen %s: %s\n  decided by %s\n", path, r.Line, report.Clean(r.String()), r.Expected,
			cmp.Or(r.Seen, "nothing"), report.Clean(r.Why), report.Clean(r.Rule))
	}
	parts := []string{fmt.Sprintf("%d as expected", n[reproduce.Kept])}
	for _, p := range []struct {
		outcome reproduce.Outcome
		text    string
	}{{reproduce.Mismatch, "NOT as expected"}, {reproduce.Unproven, "unproven"}, {reproduce.Failed, "could not be asked for"}} {
		if n[p.outcome] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[p.outcome], p.text))
		}
	}
	fmt.Fprintf(&text, "\n%s in %.1f s: %s\n", plural(len(results), "decision"), took.Seconds(), strings.Join(parts, ", "))
	if o.folder != "" {
		text.WriteString("report: " + filepath.Join(o.folder, report.HTMLFile) + "\n")
	}
	if o.keep && o.servers == "" {
		text.WriteString("the lab is up: brokerlab lab down " + path + " removes it\n")
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// addResults writes a table for each principal and address.
func addResults(text *strings.Builder, results []reproduce.Result) {
	mark := map[reproduce.Outcome]string{reproduce.Kept: "✓", reproduce.Mismatch: "✗", reproduce.Unproven: "–", reproduce.Failed: "!"}
	const resourceWidth, operationWidth = 26, 16
	results = slices.Clone(results)
	slices.SortStableFunc(results, func(a, b reproduce.Result) int {
		return cmp.Or(cmp.Compare(a.Principal, b.Principal), a.From.Compare(b.From))
	})
	head := ""
	for i := range results {
		r := &results[i]
		if h := fmt.Sprintf("%s from %s", r.Principal, r.From); h != head {
			head = h
			fmt.Fprintf(text, "\n%s\n", shorten(report.Clean(h), summaryWidth))
			fmt.Fprintf(text, "  %-*s %-*s %-8s %-8s %s\n", resourceWidth, "RESOURCE", operationWidth, "OPERATION", "EXPECTED", "SEEN", "DECIDED BY")
		}
		rule := r.Rule
		if r.Outcome == reproduce.Unproven {
			rule = "unproven: " + r.Why
		}
		line := fmt.Sprintf("%s %-*s %-*s %-8s %-8s %s", mark[r.Outcome], resourceWidth, shorten(report.Clean(r.Resource), resourceWidth), operationWidth, r.Operation,
			r.Expected, cmp.Or(r.Seen, "–"), report.Clean(rule))
		text.WriteString(shorten(strings.ReplaceAll(line, "\n", " "), summaryWidth) + "\n")
	}
}
