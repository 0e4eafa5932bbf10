package runner_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/scenarios/report"
)

// examples/own-suites is a module of its own, as somebody has it who does not work in this tree.
func TestASuiteOutsideThisTreeCompilesAndRuns(t *testing.T) {
	g := NewWithT(t)
	root, err := filepath.Abs("../..")
	g.Expect(err).NotTo(HaveOccurred())
	folder, reports := t.TempDir(), t.TempDir()
	g.Expect(os.CopyFS(folder, os.DirFS(filepath.Join(root, "examples", "own-suites")))).To(Succeed())
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(filepath.Join(folder, "go.sum"), sums, 0o600)).To(Succeed())
	run := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = folder
		// Nothing is fetched: whatever the module needs, this tree has needed before.
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off", "BROKERLAB_SCALE=0.2", "BROKERLAB_REPORT_DIR="+reports)
		out, failed := cmd.CombinedOutput()
		g.Expect(failed).NotTo(HaveOccurred(), "go %v\n%s", args, out)
	}
	run("mod", "edit", "-replace", "github.com/brokerlab/brokerlab="+root)
	run("vet", ".")
	if testing.Short() || os.Geteuid() != 0 {
		t.Skip("it compiles; to run it takes root, and is not short")
	}
	run("test", "-count=1", ".")
	for _, name := range []string{report.HTMLFile, report.JSONFile, report.JUnitFile} {
		_, err = os.Stat(filepath.Join(reports, name))
		g.Expect(err).NotTo(HaveOccurred())
	}
}
