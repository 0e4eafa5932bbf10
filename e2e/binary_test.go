package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// On however few cores: what runs beside something else waits for most of its time.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// binary is the path of the brokerlab under test.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("BROKERLAB_BINARY"); path != "" {
		return filepath.Abs(path)
	}
	dir, err := os.MkdirTemp("", "brokerlab-e2e-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "brokerlab")
	build := exec.Command("go", "build", "-o", path, "../cmd/brokerlab")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build brokerlab: %w\n%s", err, out)
	}
	return path, nil
})

// result is what a finished command left.
type result struct {
	stdout, stderr string
	code           int
}

// run runs name with args to its end. It fails t only where the command could not be run at all.
func run(t *testing.T, stdin, name string, args ...string) result {
	t.Helper()
	// Not the test's context: clean-ups run commands, too, and then it has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), kit.Patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatalf("run %s: %v", name, err)
	}
	return result{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
}

// brokerlab runs the binary under test to its end.
func brokerlab(t *testing.T, args ...string) result {
	t.Helper()
	return run(t, "", path(t), args...)
}

func path(t *testing.T) string {
	t.Helper()
	p, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// mustRun is run for a command that has to succeed; it returns its standard output.
func mustRun(t *testing.T, stdin, name string, args ...string) string {
	t.Helper()
	r := run(t, stdin, name, args...)
	if r.code != 0 {
		t.Fatalf("%s %s: exit %d\n%s%s", name, strings.Join(args, " "), r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// process is a command that goes on while the test does.
type process struct {
	cmd  *exec.Cmd
	log  *kit.Log
	done chan struct{}
}

// start starts the binary under test and stops it with the test.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(path(t), args...), log: &kit.Log{}, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start brokerlab %s: %v", args[0], err)
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.stop(t, syscall.SIGTERM)
		if t.Failed() {
			t.Logf("the last that brokerlab %s said:\n%s", args[0], p.said())
		}
	})
	return p
}

// said is the last that p said.
func (p *process) said() string { return kit.Last(p.log.String(), kit.Told) }

// stop sends sig and waits for the end.
func (p *process) stop(t *testing.T, sig syscall.Signal) {
	t.Helper()
	select {
	case <-p.done:
		return
	default:
	}
	if err := p.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("signal %v: %v", sig, err)
	}
	select {
	case <-p.done:
	case <-time.After(2 * time.Minute):
		_ = p.cmd.Process.Kill()
		t.Errorf("brokerlab did not end within two minutes of %v", sig)
	}
}

// writeFile writes text to name in dir and returns the path.
func writeFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// needKcat skips t where kcat is not installed.
func needKcat(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("kcat"); err != nil {
		t.Skip("kcat is not installed: make deps installs it")
	}
}

// needRoot skips t where it does not run as root.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes network namespaces")
	}
}
