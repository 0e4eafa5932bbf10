package runner_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/runner"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// wheels counts the attempts at a promise.
var wheels int

var _ = Describe("A toy", Label("toys"), func() {
	It("keeps its promise", func() {
		wheels++
		report.Attach(report.Figure{Name: "wheels", Value: float64(wheels)})
	})
	It("breaks", func() { Expect("whole").To(Equal("broken")) })
	It("takes its time", func(ctx SpecContext) {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	})
	It("cannot be tried", func() { Skip("no batteries") })
	It("costs a lot", Label("dear"), func() {})
	It("lists who plays with it", stage.Needs(stage.Listing, stage.MaxSSL), func() { Fail("it was tried") })
})

var _ = Describe("A tool", Label("tools"), func() {
	It("is left alone", func() { Fail("it was chosen") })
})

// Ginkgo runs once a process, so everything about a run is in one test.
func TestARunTellsOfEachPromiseAndReportsAll(t *testing.T) {
	g := NewWithT(t)
	g.Expect(runner.Suites()).To(Equal([]string{"tools", "toys"}))
	promises, err := runner.List(runner.Options{Suites: []string{"toys"}, LabelFilter: "!dear"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(promises).To(HaveLen(5))
	g.Expect(promises[0]).To(HaveField("Name", "A toy breaks"))
	g.Expect(promises).To(HaveEach(HaveField("Skips", "")))
	kafka := stage.Product{Kafka: "4.4.0"}
	const why = "Apache Kafka 4.4.0 has no list of connections (KIP-1329), and no max.ssl.connections (KIP-1015)"
	promises, err = runner.List(runner.Options{Suites: []string{"toys"}, LabelFilter: "needs: containsAny listing", Target: kafka})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(promises).To(ConsistOf(HaveField("Skips", why)))

	for _, wrong := range []runner.Options{{Suites: []string{"games"}}, {LabelFilter: "(("}, {LabelFilter: "nothing"}} {
		_, err = runner.Run(wrong)
		_, ok := errors.AsType[*runner.SelectionError](err)
		g.Expect(ok).To(BeTrue(), "%+v: %v", wrong, err)
	}

	shard := func(part int) []runner.Promise {
		all, failed := runner.List(runner.Options{Suites: []string{"toys"}, Shard: runner.Shard{Part: part, Of: 3}})
		g.Expect(failed).NotTo(HaveOccurred())
		return all
	}
	whole, err := runner.List(runner.Options{Suites: []string{"toys"}})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(slices.Concat(shard(1), shard(2), shard(3))).To(ConsistOf(whole), "each promise is in one shard")
	g.Expect(len(shard(1)) - len(shard(3))).To(BeNumerically("<=", 1))
	_, err = runner.List(runner.Options{Suites: []string{"tools"}, Shard: runner.Shard{Part: 2, Of: 2}})
	g.Expect(err).To(MatchError("shard 2/2 is empty: there are 1 promises"))

	var out bytes.Buffer
	t.Setenv(stage.TargetVariable, "") // the run sets it, and the test sets it back
	r, err := runner.Run(runner.Options{
		Suites: []string{"toys"}, LabelFilter: "!dear", Seed: 7, Out: &out, Heartbeat: 20 * time.Millisecond, Repeat: 3, Target: kafka,
	})
	RegisterTestingT(t) // the run took gomega's fail handler
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.Totals).To(Equal(report.Totals{Specs: 5, Passed: 2, Failed: 1, Skipped: 2}))
	g.Expect(r).To(And(HaveField("Succeeded", false), HaveField("Seed", int64(7)), HaveField("Target", "Apache Kafka 4.4.0")))
	g.Expect(r.Specs).To(HaveEach(HaveField("Suite", "toys")))
	g.Expect(runner.Verdict(r)).To(MatchError("1 of 5 promises broken"))
	g.Expect(r.Specs).To(ContainElement(And(HaveField("Name", "A toy lists who plays with it"), HaveField("State", report.Skipped),
		HaveField("Lacks", report.LackTarget), HaveField("Message", why))))
	folder := t.TempDir()
	g.Expect(r.Write(folder)).To(Succeed())
	for _, name := range []string{report.HTMLFile, report.JSONFile, report.JUnitFile} {
		text, unread := os.ReadFile(filepath.Join(folder, name))
		g.Expect(unread).NotTo(HaveOccurred())
		g.Expect(string(text)).To(ContainSubstring(why), name)
	}
	for i := range r.Specs {
		switch s := &r.Specs[i]; s.Name {
		case "A toy keeps its promise":
			g.Expect(s.Attempts).To(Equal(3))
			g.Expect(s.Figures).To(ConsistOf(report.Figure{Name: "wheels", Value: float64(wheels)}), "of the last attempt")
		case "A toy breaks":
			g.Expect(s.Attempts).To(Equal(1), "the first break is the end")
		}
	}
	g.Expect(wheels).To(Equal(3))
	for _, line := range []string{
		"] toys: A toy keeps its promise", "✓ [", "] toys: A toy breaks", "✗ [", "to equal", "] toys: A toy cannot be tried", "– [", "skipped: no batteries",
		"… A toy takes its time", "[5/5] ", "skipped: Apache Kafka 4.4.0 has no list",
	} {
		g.Expect(out.String()).To(ContainSubstring(line))
	}
	g.Expect(out.String()).NotTo(ContainSubstring("A tool"))
	g.Expect(out.String()).NotTo(ContainSubstring("\x1b"))
}

func TestTheVerdictOfARunInWhichNothingCouldBeTriedIsAnErrorOfItsOwn(t *testing.T) {
	g := NewWithT(t)
	r := &report.Report{Succeeded: true, Totals: report.Totals{Specs: 1, Skipped: 1}, Specs: []report.Spec{{State: report.Skipped, Message: "needs root"}}}
	g.Expect(runner.Verdict(r)).To(MatchError(runner.ErrNothingTried))
	g.Expect(runner.Verdict(r)).To(MatchError(ContainSubstring("needs root")))
	r.Specs[0].Lacks, r.Totals.Specs = report.LackKernel, 2
	g.Expect(runner.Verdict(r)).To(MatchError(runner.ErrKernelLacks))
	r.Totals.Passed = 1
	g.Expect(runner.Verdict(r)).To(MatchError("1 of 2 promises were skipped: this kernel lacks what they need"))
	r.Succeeded, r.Totals.Failed = false, 1
	g.Expect(runner.Verdict(r)).To(MatchError("1 of 2 promises broken"), "what is broken counts more")
	g.Expect(runner.Verdict(&report.Report{Problems: []string{"Interrupted by User"}})).To(MatchError(runner.ErrInterrupted))
	g.Expect(runner.Verdict(&report.Report{Succeeded: true, Totals: report.Totals{Specs: 2, Passed: 1, Skipped: 1}})).To(Succeed())
	target := []report.Spec{{State: report.Skipped, Lacks: report.LackTarget, Message: "has no list"}, {State: report.Passed}}
	g.Expect(runner.Verdict(&report.Report{Succeeded: true, Totals: report.Totals{Specs: 2, Passed: 1, Skipped: 1}, Specs: target})).To(Succeed(),
		"what a target has not is no fault")
	g.Expect(runner.Verdict(&report.Report{Succeeded: true, Totals: report.Totals{Specs: 1, Skipped: 1}, Specs: target[:1]})).To(MatchError(runner.ErrNothingTried))
}

func TestAShardIsAPartOfAWhole(t *testing.T) {
	for text, want := range map[string]runner.Shard{"1/4": {Part: 1, Of: 4}, "4/4": {Part: 4, Of: 4}, "1/1": {Part: 1, Of: 1}} {
		got, err := runner.ParseShard(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("ParseShard(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1", "0/4", "5/4", "-1/4", "1/0", "a/b", "1/4/2", "1/"} {
		if got, err := runner.ParseShard(text); err == nil {
			t.Errorf("ParseShard(%q) = %v, want an error", text, got)
		}
	}
}
