package command

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/runner"
)

func TestRunListsItsPromisesWithoutRunningThem(t *testing.T) {
	got := run(t, "brokerlab", "run", "--list", "--format", "json", "listing")
	if got.code != 0 {
		t.Fatalf("run --list = exit %d %s, want 0", got.code, got.errout)
	}
	var promises []runner.Promise
	if err := json.Unmarshal([]byte(got.out), &promises); err != nil {
		t.Fatal(err)
	}
	if len(promises) < 10 {
		t.Errorf("run --list listing has %d promises, want at least 10", len(promises))
	}
	for _, p := range promises {
		if p.Suite != "listing" || p.Name == "" {
			t.Errorf("run --list listing has %+v", p)
		}
	}
	if got := run(t, "brokerlab", "run", "--list"); !strings.Contains(got.out, "accounting  ") {
		t.Errorf("run --list = %s, want every suite in it", got.out)
	}
}

func TestRunThatMakesNoSenseExitsWithTwo(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"nosuch"}, `there is no suite "nosuch": use accounting, acl, cluster, configpush, hostile, limits, listing`},
		{[]string{"--label-filter", "(("}, "label filter"},
		{[]string{"--label-filter", "nosuchlabel"}, "no promise matches"},
		{[]string{"--scale", "0"}, "must be above 0"},
		{[]string{"--scale", "NaN"}, "must be above 0"},
		{[]string{"--repeat", "0"}, "must be above 0"},
		{[]string{"--shard", "5/4"}, "want PART/OF"},
		{[]string{"--shard", "900/900", "--list"}, "shard 900/900 is empty"},
		{[]string{"--pcap"}, "needs --report-dir"},
		{[]string{"--target", "redpanda"}, "want broker, kafka or kafka:VERSION"},
		{[]string{"--target", "kafka:3.9.0"}, "want 4.0.0 or later"},
		{[]string{"--workers", "fleet"}, "want TOPIC@HOST:PORT"},
		{[]string{"--workers", "fleet@127.0.0.1:1"}, "workers at fleet@127.0.0.1:1: "},
		{[]string{"--target", "kafka:4.99.99"}, "brokerlab kafka fetch 4.99.99"},
	} {
		got := run(t, append([]string{"brokerlab", "run"}, test.args...)...)
		if got.code != 2 || !strings.Contains(got.errout, test.want) {
			t.Errorf("run %v = exit %d %q, want 2 and %q", test.args, got.code, got.errout, test.want)
		}
	}
}

func TestRunListsWhatItWouldSkipAgainstATarget(t *testing.T) {
	got := run(t, "brokerlab", "run", "--list", "--format", "json", "--target", "kafka", "listing", "limits", "acl")
	var promises []runner.Promise
	if err := json.Unmarshal([]byte(got.out), &promises); err != nil {
		t.Fatalf("run --list = exit %d %s: %v", got.code, got.errout, err)
	}
	tried := map[string]int{}
	for _, p := range promises {
		switch {
		case p.Skips == "":
			tried[p.Suite]++
		case !strings.HasPrefix(p.Skips, "Apache Kafka 4.4.0 has no "):
			t.Errorf("%s is skipped because %q", p.Name, p.Skips)
		}
	}
	if tried["listing"] != 0 || tried["limits"] < 15 || tried["acl"] < 20 {
		t.Errorf("against Kafka %v are tried, want no list, and most of limits and rules", tried)
	}
	if got := run(t, "brokerlab", "run", "--list", "--target", "kafka", "listing"); strings.Count(got.out, "Skipped: Apache Kafka 4.4.0 has no list of connections (KIP-1329)\n") != 1 {
		t.Errorf("run --list --target kafka listing = %s, want the reason once", got.out)
	}
}

func TestTheSummaryOfARunFitsAScreenWhateverIsInTheReport(t *testing.T) {
	r := &report.Report{Totals: report.Totals{Specs: 42, Passed: 40, Failed: 1, Skipped: 1}}
	const lacking = "Apache Kafka 4.4.0 has no list of connections (KIP-1329)"
	for i := range 42 {
		s := report.Spec{Suite: "listing", Name: fmt.Sprint(i, strings.Repeat(" wörter", 40)), State: report.Passed, Seconds: 1}
		s.Figures = []report.Figure{{Name: strings.Repeat("figure ", 20), Value: 0.5, Unit: "ms"}}
		switch i {
		case 40:
			s.State, s.Message = report.Failed, "expected\nto equal"
		case 41:
			s.State, s.Message, s.Lacks = report.Skipped, lacking, report.LackTarget
		}
		r.Specs = append(r.Specs, s)
	}
	var b strings.Builder
	if err := printSummary(&b, r); err != nil {
		t.Fatal(err)
	}
	if err := printBroken(&b, r, "report"); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	if len(lines) > 40 {
		t.Errorf("the summary has %d lines, want at most 40:\n%s", len(lines), b.String())
	}
	for _, line := range lines {
		if len([]rune(line)) > summaryWidth {
			t.Errorf("the summary has a line of more than %d columns: %s", summaryWidth, line)
		}
	}
	for _, want := range []string{"Broken:\n  listing: 40 ", "      expected\n", "40 kept, 1 BROKEN, 1 skipped", "Skipped against this target:\n  1: " + lacking} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, b.String())
		}
	}
}

func TestTheEndOfARunSaysWhatBrokeAndWhereToLook(t *testing.T) {
	r := &report.Report{Totals: report.Totals{Specs: 2, Passed: 1, Failed: 1}, Specs: []report.Spec{
		{Suite: "listing", Name: "is kept", State: report.Passed},
		{
			Suite: "listing", Name: "breaks", State: report.Failed, Message: "Expected\n  1", Attempts: 3,
			Folder: "failed/breaks-spec-1-1", Lab: "spec-1-1",
		},
	}}
	var out strings.Builder
	if err := printBroken(&out, r, "dir"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"report: dir/report.html\n", "listing: breaks\n", "Expected\n", "attempt 3", "saved in dir/failed/breaks-spec-1-1",
		"brokerlab lab exec spec-1-1 ops -- ", "brokerlab lab down spec-1-1\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("printBroken = %q, want %q in it", out.String(), want)
		}
	}
	if strings.Contains(out.String(), "is kept") {
		t.Errorf("printBroken = %q, want only what broke", out.String())
	}
}

func TestTheShardsOfARunAreTheWholeRun(t *testing.T) {
	list := func(args ...string) []runner.Promise {
		t.Helper()
		got := run(t, append([]string{"brokerlab", "run", "--list", "--format", "json"}, args...)...)
		var promises []runner.Promise
		if err := json.Unmarshal([]byte(got.out), &promises); err != nil {
			t.Fatalf("run --list %v = %q, %q: %v", args, got.out, got.errout, err)
		}
		return promises
	}
	whole, sum := list(), 0
	for _, shard := range []string{"1/4", "2/4", "3/4", "4/4"} {
		sum += len(list("--shard", shard))
	}
	if sum != len(whole) {
		t.Errorf("four shards have %d promises, want %d", sum, len(whole))
	}
}
