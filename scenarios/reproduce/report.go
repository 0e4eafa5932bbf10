package reproduce

import (
	"fmt"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/brokerlab/brokerlab/scenarios/report"
)

// Report is the results as a run of suites has them: each principal is a suite, each cell a promise; what could not be proven was
// skipped.
func Report(title, file string, results []Result, started time.Time) *report.Report {
	run := types.Report{SuiteDescription: title, SuitePath: file, StartTime: started, EndTime: time.Now(), SuiteSucceeded: true}
	run.RunTime = run.EndTime.Sub(started)
	for i := range results {
		r := &results[i]
		spec := types.SpecReport{
			ContainerHierarchyTexts: []string{r.Principal}, ContainerHierarchyLabels: [][]string{{r.Principal}},
			ContainerHierarchyLocations: []types.CodeLocation{{FileName: file, LineNumber: r.Line}},
			LeafNodeType:                types.NodeTypeIt, LeafNodeLocation: types.CodeLocation{FileName: file, LineNumber: r.Line},
			LeafNodeText: fmt.Sprintf("%s on %s from %s: %s by %s", r.Operation, r.Resource, r.From, r.Expected, r.Rule),
			StartTime:    r.Started, EndTime: r.Started.Add(r.Took), RunTime: r.Took,
			NumAttempts: 1, ParallelProcess: 1,
		}
		failure := types.Failure{Location: spec.LeafNodeLocation, FailureNodeContext: types.FailureNodeIsLeafNode, FailureNodeType: types.NodeTypeIt, FailureNodeLocation: spec.LeafNodeLocation}
		switch r.Outcome {
		case Kept:
			spec.State = types.SpecStatePassed
		case Unproven:
			spec.State = types.SpecStateSkipped
			failure.Message = "unproven: " + r.Why
			spec.Failure = failure
		case Mismatch:
			spec.State = types.SpecStateFailed
			failure.Message = strings.TrimSpace(fmt.Sprintf("expected %s, seen %s (%s): %s\ndeciding rule: %s", r.Expected, r.Seen, r.Request, r.Why, r.Rule))
			spec.Failure, run.SuiteSucceeded = failure, false
		case Failed:
			spec.State = types.SpecStateFailed
			failure.Message = "could not be asked: " + r.Why
			spec.Failure, run.SuiteSucceeded = failure, false
		}
		run.SpecReports = append(run.SpecReports, spec)
	}
	run.PreRunStats = types.PreRunStats{TotalSpecs: len(results), SpecsThatWillRun: len(results)}
	return report.New(title, run)
}

// Tally counts results by their outcomes.
func Tally(results []Result) map[Outcome]int {
	n := map[Outcome]int{}
	for i := range results {
		n[results[i].Outcome]++
	}
	return n
}
