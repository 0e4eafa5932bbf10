package runner_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/report"
	"github.com/brokerlab/brokerlab/scenarios/runner"
)

var _ = Describe("A toy", Label("toys"), func() {
	It("keeps its promise", func() { report.Attach(report.Figure{Name: "wheels", Value: 4}) })
	It("breaks", func() { Expect("whole").To(Equal("broken")) })
	It("takes its time", func(ctx SpecContext) {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	})
	It("cannot be tried", func() { Skip("no batteries") })
	It("costs a lot", Label("dear"), func() {})
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
	g.Expect(promises).To(HaveLen(4))
	g.Expect(promises[0]).To(HaveField("Name", "A toy breaks"))

	for _, wrong := range []runner.Options{{Suites: []string{"games"}}, {LabelFilter: "(("}, {LabelFilter: "nothing"}} {
		_, err = runner.Run(wrong)
		_, ok := errors.AsType[*runner.SelectionError](err)
		g.Expect(ok).To(BeTrue(), "%+v: %v", wrong, err)
	}

	var out bytes.Buffer
	r, err := runner.Run(runner.Options{
		Suites: []string{"toys"}, LabelFilter: "!dear", Seed: 7, Out: &out, Heartbeat: 20 * time.Millisecond,
	})
	RegisterTestingT(t) // the run took gomega's fail handler
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.Totals).To(Equal(report.Totals{Specs: 4, Passed: 2, Failed: 1, Skipped: 1}))
	g.Expect(r).To(And(HaveField("Succeeded", false), HaveField("Seed", int64(7))))
	g.Expect(r.Specs).To(HaveEach(HaveField("Suite", "toys")))
	g.Expect(runner.Verdict(r)).To(MatchError("1 of 4 promises broken"))
	for _, line := range []string{
		"] toys: A toy keeps its promise", "✓ [", "] toys: A toy breaks", "✗ [", "to equal", "] toys: A toy cannot be tried", "– [", "skipped: no batteries",
		"… A toy takes its time", "[4/4] ",
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
	g.Expect(runner.Verdict(&report.Report{Problems: []string{"Interrupted by User"}})).To(MatchError(runner.ErrInterrupted))
	g.Expect(runner.Verdict(&report.Report{Succeeded: true, Totals: report.Totals{Specs: 2, Passed: 1, Skipped: 1}})).To(Succeed())
}
