// Package testenv checks the world around a test: what it may do here (root, file descriptors), and that it leaves nothing
// behind (descriptors, namespaces). Helpers take the test and clean up after themselves.
package testenv

import (
	"os"
	"syscall"
	"testing"
)

// NeedRoot skips tb unless it runs as root: making namespaces and loading BPF programs needs it.
func NeedRoot(tb testing.TB) {
	tb.Helper()
	if os.Geteuid() != 0 {
		tb.Skip("needs root: it makes network namespaces or loads BPF programs")
	}
}

// NeedFiles raises the soft limit of open files to the hard one, and skips tb where that is below n.
func NeedFiles(tb testing.TB, n uint64) {
	tb.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		tb.Fatalf("read the limit of open files: %v", err)
	}
	if limit.Max < n {
		tb.Skipf("needs %d open files, this machine allows %d", n, limit.Max)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		tb.Fatalf("raise the limit of open files to %d: %v", limit.Max, err)
	}
}

// NoLeakedFiles fails tb when it ends with more open descriptors than it had when this was called. Call it first, so that
// every clean-up registered later has run by then. Not for parallel tests: descriptors belong to the process.
func NoLeakedFiles(tb testing.TB) {
	tb.Helper()
	before := openFiles(tb)
	tb.Cleanup(func() {
		if after := openFiles(tb); after > before {
			tb.Errorf("open files = %d at the end, want at most the %d of the beginning", after, before)
		}
	})
}

func openFiles(tb testing.TB) int {
	tb.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatalf("count open files: %v", err)
	}
	return len(names) - 1 // the folder just read
}
