// Package testenv checks the world around a test: what it may do here (root, file descriptors), and that it leaves nothing
// behind (descriptors, namespaces). Helpers take the test and clean up after themselves.
package testenv

import (
	"os"
	"syscall"
	"testing"
)

// NeedRoot skips t unless it runs as root: making namespaces and loading BPF programs needs it.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes network namespaces or loads BPF programs")
	}
}

// NeedFiles raises the soft limit of open files to the hard one, and skips t where that is below n.
func NeedFiles(t testing.TB, n uint64) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatalf("read the limit of open files: %v", err)
	}
	if limit.Max < n {
		t.Skipf("needs %d open files, this machine allows %d", n, limit.Max)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatalf("raise the limit of open files to %d: %v", limit.Max, err)
	}
}

// NoLeakedFiles fails t when it ends with more open descriptors than it had when this was called. Call it first, so that
// every clean-up registered later has run by then. Not for parallel tests: descriptors belong to the process.
func NoLeakedFiles(t testing.TB) {
	t.Helper()
	before := openFiles(t)
	t.Cleanup(func() {
		if after := openFiles(t); after > before {
			t.Errorf("open files = %d at the end, want at most the %d of the beginning", after, before)
		}
	})
}

func openFiles(t testing.TB) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatalf("count open files: %v", err)
	}
	return len(names) - 1 // the folder just read
}
