package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
)

// takeTurn waits until no other process of this user has a stage, and gives the turn up when the spec ends: suites that run at the
// same time, as `go test ./...` does, would measure each other.
func takeTurn(ctx SpecContext) {
	GinkgoHelper()
	name := fmt.Sprintf("brokerlab-stage-%d.lock", os.Getuid())
	f, err := os.OpenFile(filepath.Join(os.TempDir(), name), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(f.Close)
	Eventually(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }).
		WithContext(ctx).WithTimeout(10*time.Minute).WithPolling(50*time.Millisecond).
		Should(Succeed(), "another process runs scenarios on this machine")
}
