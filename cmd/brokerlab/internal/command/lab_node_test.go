package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/brokerlab/brokerlab/internal/testenv"
	"github.com/brokerlab/brokerlab/netlab"
)

const oneProgram = `
nodes:
  web: {kind: exec, cmd: "trap 'echo ends; exit' TERM; echo begins; while :; do sleep 0.05; done"}
subnets: {four: {cidr: 10.1.0.0/24}}
`

func TestANodeIsStoppedStartedKilledAndRestartedAndItsLogKeepsAllOfIt(t *testing.T) {
	testenv.NeedRoot(t)
	file, name := labFile(t, oneProgram)
	for _, step := range []struct {
		begun  int // how often the program has begun, and set its trap, before the step
		args   string
		code   int
		stdout string // a part of it
		stderr string // a part of it
	}{
		{args: "up FILE"},
		{begun: 1, args: "stop NAME web", stdout: "Node web of lab NAME: stopped (exit status 0)\n"},
		{args: "inspect NAME", stdout: "stopped (exit status 0)"},
		{args: "stop NAME web", stdout: "stopped"},
		{args: "start FILE web", stdout: "Node web of lab NAME: running, pid "},
		{args: "start NAME web", stdout: "running"},
		{begun: 2, args: "kill NAME web", stdout: "Node web of lab NAME: killed (signal: killed)\n"},
		{args: "restart NAME web", stdout: "running"},
		{begun: 3, args: "restart NAME web", stdout: "running"},
		{args: "kill NAME nobody", code: 1, stderr: `lab NAME has no node "nobody" (there are: `},
		{args: "kill NAME four", code: 1, stderr: `lab NAME has no node "four"`},
		{args: "logs NAME nobody", code: 1, stderr: `lab NAME has no node "nobody"`},
		{args: "logs NAME web --tail 0"},
	} {
		if step.begun > 0 {
			becomes(t, func() string {
				_, log, _ := commandLine(t, "", "lab", "logs", name, "web")
				return strconv.Itoa(strings.Count(log, "begins"))
			}, strconv.Itoa(step.begun))
		}
		args := strings.Fields(strings.NewReplacer("FILE", file, "NAME", name).Replace("lab " + step.args))
		code, stdout, stderr := commandLine(t, "", args...)
		expand := strings.NewReplacer("NAME", name).Replace
		if code != step.code || !strings.Contains(stdout, expand(step.stdout)) || !strings.Contains(stderr, expand(step.stderr)) {
			t.Errorf("lab %s = %d, want %d, %q and %q:\n%s%s", step.args, code, step.code, step.stdout, step.stderr, stdout, stderr)
		}
	}
	// The program may not have printed yet when it already runs.
	becomes(t, func() string {
		_, log, _ := commandLine(t, "", "lab", "logs", name, "web")
		return log
	}, strings.Join([]string{"begins", "ends", "begins", "begins", "ends", "begins", ""}, "\n"))
	if _, log, _ := commandLine(t, "", "lab", "logs", file, "web", "--tail", "2"); log != "ends\nbegins\n" {
		t.Errorf("logs --tail 2 = %q, want the last two lines", log)
	}
}

func TestLogsAreFollowedUntilTheLabIsGone(t *testing.T) {
	testenv.NeedRoot(t)
	file, name := labFile(t, oneProgram)
	if code, out, errs := commandLine(t, "", "lab", "up", file); code != 0 {
		t.Fatalf("lab up = %d, %s%s", code, out, errs)
	}
	followed, ended := &sharedBuffer{}, make(chan int, 1)
	go func() {
		ended <- Run(context.WithoutCancel(t.Context()), []string{"brokerlab", "lab", "logs", name, "web", "-f"}, Env{Stdout: followed, Stderr: io.Discard})
	}()
	becomes(t, followed.String, "begins\n")
	if code, out, errs := commandLine(t, "", "lab", "restart", name, "web"); code != 0 {
		t.Fatalf("lab restart = %d, %s%s", code, out, errs)
	}
	becomes(t, followed.String, "begins\nends\nbegins\n")
	if err := netlab.Down(t.Context(), name, netlab.Options{}); err != nil {
		t.Fatal(err)
	}
	if code := <-ended; code != 0 {
		t.Errorf("logs -f of a lab that is taken down = exit %d, want 0", code)
	}
}

func TestTheLastLinesOfALogAreFoundWhateverItsSize(t *testing.T) {
	t.Parallel()
	var long strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&long, "line %d\n", i)
	}
	for _, test := range []struct {
		text string
		n    int
		want string
	}{
		{"", 3, ""},
		{"a\nb\nc\n", 0, ""},
		{"a\nb\nc\n", 1, "c\n"},
		{"a\nb\nc", 2, "b\nc"},
		{"a\n\n\n", 2, "\n\n"},
		{"a\nb\n", 7, "a\nb\n"},
		{"\n", 1, "\n"},
		{long.String(), 1, "line 8999\n"},
		{long.String(), 8999, strings.TrimPrefix(long.String(), "line 0\n")},
	} {
		f := strings.NewReader(test.text)
		if err := seekLines(f, test.n); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(iotest.OneByteReader(f))
		if err != nil || string(got) != test.want {
			t.Errorf("the last %d lines of %.20q… = %.40q, %v, want %.40q", test.n, test.text, got, err, test.want)
		}
	}
}

// becomes waits until text gives want.
func becomes(t *testing.T, text func() string, want string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	got := text()
	for tick := time.NewTicker(20 * time.Millisecond); got != want; got = text() {
		if time.Now().After(deadline) {
			t.Fatalf("got %q, want %q within 20 s", got, want)
		}
		<-tick.C
	}
}

// sharedBuffer is written by one goroutine and read by another.
type sharedBuffer struct {
	mu  sync.Mutex // guards buf
	buf bytes.Buffer
}

func (b *sharedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *sharedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
