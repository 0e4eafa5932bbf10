package stage

import (
	"context"
	"os"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/scenarios/report"
)

// Long is the label of specs that take a minute and more, as starts of Apache Kafka do. `go test` leaves them out unless
// BROKERLAB_LONG is set; `brokerlab run` runs them unless its label filter says otherwise.
const Long = "long"

// LongVariable is the environment variable that has `go test` run specs that are [Long], too.
const LongVariable = "BROKERLAB_LONG"

// skipLong skips the spec that runs if it takes long and nobody asked for that.
func skipLong() {
	if os.Getenv(LongVariable) == "" && slices.Contains(CurrentSpecReport().Labels(), Long) {
		Skip("it takes long: set " + LongVariable + "=1, or use brokerlab run")
	}
}

// Tester is what [RunSuite] needs of a test.
type Tester interface {
	Helper()
	Context() context.Context
	Fail()
	Fatalf(format string, args ...any)
}

// RunSuite runs the specs of a test binary, as `go test` has it: with its turn taken and brokerlab built before the first
// spec's time begins. Where BROKERLAB_REPORT_DIR names a folder, the report is written into it.
func RunSuite(t Tester, name string) {
	t.Helper()
	if _, err := ParseTarget(os.Getenv(TargetVariable)); err != nil {
		t.Fatalf("%s: %v", TargetVariable, err)
	}
	RegisterFailHandler(Fail)
	release, err := Prepare(t.Context(), nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer release() //nolint:errcheck // the process ends
	if netlab.Privileges() == nil {
		if _, err := Binary(t.Context()); err != nil {
			t.Fatalf("%v", err)
		}
	}
	if folder := os.Getenv(ReportVariable); folder != "" {
		ReportAfterSuite("write the report", func(r Report) {
			made := report.New(name, r)
			made.Target = Target().Title()
			Expect(made.Write(folder)).To(Succeed())
		})
	}
	BeforeEach(SkipForTarget)
	BeforeEach(skipLong)
	RunSpecs(t, name)
}
