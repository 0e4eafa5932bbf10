package stage

import (
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
)

// takeTurn waits until no other process on the machine has a stage, and gives the turn up when the spec ends: suites that run at the
// same time, as `go test ./...` does, would measure each other.
func takeTurn(ctx SpecContext) {
	GinkgoHelper()
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "brokerlab-stage.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(f.Close)
	Eventually(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }).
		WithContext(ctx).WithTimeout(10*time.Minute).WithPolling(50*time.Millisecond).
		Should(Succeed(), "another process runs scenarios on this machine")
}
