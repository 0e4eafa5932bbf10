package stage

import (
	"os"
	"runtime"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// world is what a spec may not leave behind in this process.
type world struct {
	files      int
	goroutines map[string]bool
}

func lookAround() world {
	w := world{files: openFiles(), goroutines: map[string]bool{}}
	for id := range ours() {
		w.goroutines[id] = true
	}
	return w
}

// expectAsBefore fails the spec if this process has more of anything than before. What ends by itself gets a while.
func (w world) expectAsBefore() {
	GinkgoHelper()
	Eventually(func() map[string]string {
		left := ours()
		for id := range w.goroutines {
			delete(left, id)
		}
		return left
	}).WithTimeout(10*time.Second).Should(BeEmpty(), "goroutines are left")
	Eventually(openFiles).WithTimeout(10*time.Second).Should(BeNumerically("<=", w.files), "file descriptors are left")
}

// openFiles counts this process's file descriptors; -1 where there is no /proc.
func openFiles() int {
	names, _ := os.ReadDir("/proc/self/fd") // nothing to compare then, before or after
	return len(names) - 1                   // the folder just read
}

// ours are the stacks of goroutines that run code of this module or of a library that it starts things in, by goroutine.
func ours() map[string]string {
	b := make([]byte, 1<<20)
	for {
		if n := runtime.Stack(b, true); n < len(b) {
			b = b[:n]
			break
		}
		b = make([]byte, 2*len(b))
	}
	found := map[string]string{}
	for stack := range strings.SplitSeq(string(b), "\n\n") {
		if strings.Contains(stack, "/ginkgo/v2") || strings.Contains(stack, "scenarios/runner.") {
			continue // the spec itself, and what watches it
		}
		for _, path := range []string{"brokerlab/brokerlab/", "twmb/franz-go/", "cilium/ebpf"} {
			if strings.Contains(stack, path) {
				head, _, _ := strings.Cut(stack, "[")
				found[head] = stack
			}
		}
	}
	return found
}
