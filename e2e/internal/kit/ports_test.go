package kit

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const portsEnv = "BROKERLAB_KIT_PORTS" // makes the test a process that takes ports and holds them until its input ends

func TestProcessesAreNeverGivenTheSamePort(t *testing.T) {
	if os.Getenv(portsEnv) != "" {
		for range 2 * blockSize {
			fmt.Fprintln(os.Stdout, "port", FreePort())
		}
		fmt.Fprintln(os.Stdout, "done")
		_, _ = os.Stdin.Read(make([]byte, 1))
		return
	}
	t.Parallel()
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	other.Env = append(os.Environ(), portsEnv+"=1")
	out := &Log{}
	other.Stdout, other.Stderr = out, out
	hold, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = hold.Close(), other.Wait() }()
	Eventually(t, "the other process has its ports", func() bool { return strings.Contains(out.String(), "done") })
	var theirs []int
	for line := range strings.Lines(out.String()) {
		var port int
		if n, _ := fmt.Sscanf(line, "port %d", &port); n == 1 {
			theirs = append(theirs, port)
		}
	}
	if len(theirs) != 2*blockSize {
		t.Fatalf("the other process took %d ports, want %d", len(theirs), 2*blockSize)
	}
	for range 2 * blockSize {
		if port := FreePort(); slices.Contains(theirs, port) {
			t.Fatalf("port %d was given to two processes", port)
		}
	}
}
