package stage

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/netlab"
)

// Tester is what [RunSuite] needs of a test.
type Tester interface {
	Helper()
	Context() context.Context
	Fail()
	Fatalf(format string, args ...any)
}

// RunSuite runs the specs of a test binary, as `go test` has it: with its turn taken and brokerlab built before the first
// spec's time begins.
func RunSuite(t Tester, name string) {
	t.Helper()
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
	RunSpecs(t, name)
}
