package netlab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/brokerlab/brokerlab/netlab/netns"
	"github.com/brokerlab/brokerlab/netlab/topology"
)

// process runs the program of one node: in the node's namespace, in a cgroup of its own, with the lab's hosts.
// Operations (start, stop, kill) run one after another; status may be asked at any time.
type process struct {
	home  home
	node  *topology.Node
	ns    *netns.Handle
	view  netns.View
	group cgroup

	op      sync.Mutex // held during an operation; taken before mu
	program program    // changed in an operation

	mu     sync.Mutex // guards what follows
	cmd    *exec.Cmd
	from   int64         // where the log of this run begins
	ended  chan struct{} // closed when the program has ended; nil before the first start
	since  time.Time     // of the last start or end
	state  string
	reason string // how it ended
}

// States of a node's program.
const (
	StateNew     = "not started"
	StateRunning = "running"
	StateExited  = "exited" // by itself, or killed by somebody else
	StateStopped = "stopped"
	StateKilled  = "killed"
)

func (p *process) logPath() string { return p.home.path("nodes", p.node.Name, "log") }

// start starts the program unless it runs.
func (p *process) start(ctx context.Context) error {
	p.op.Lock()
	defer p.op.Unlock()
	if p.running() {
		return nil
	}
	if err := p.group.kill(ctx); err != nil { // what an earlier run left behind
		return err
	}
	// A new cgroup for each run: Linux 6.18 kills what is cloned into one that was ever killed through cgroup.kill.
	if err := p.group.remove(ctx); err != nil {
		return err
	}
	if err := p.launch(ctx); err != nil {
		return fmt.Errorf("start node %s: %w", p.node.Name, err)
	}
	return nil
}

func (p *process) launch(ctx context.Context) error {
	folder := p.home.path("nodes", p.node.Name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := p.group.make(); err != nil {
		return err
	}
	group, err := p.group.file()
	if err != nil {
		return err
	}
	defer group.Close() //nolint:errcheck // the process was born in it
	log, err := os.OpenFile(p.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the process has its own
	born := func(cmd *exec.Cmd, out io.Writer) error {
		cmd.Dir, cmd.Env = folder, append(os.Environ(), p.program.env...)
		cmd.Stdout, cmd.Stderr = out, out
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, UseCgroupFD: true, CgroupFD: int(group.Fd())}
		return p.ns.Start(p.view, cmd.Start)
	}
	if p.program.before != nil {
		err = p.runBefore(ctx, born)
		if err != nil {
			return err
		}
	}
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	args := p.program.args
	cmd := exec.Command(args[0], args[1:]...) //nolint:gosec,noctx // running what the lab file says is the purpose; it outlives any context
	if self, _ := os.Executable(); self == args[0] {
		cmd.Path = "/proc/self/exe" // the file may have been replaced or removed since: go run does so
	}
	if err := born(cmd, log); err != nil {
		return err
	}
	ended := make(chan struct{})
	p.mu.Lock()
	p.cmd, p.from, p.ended, p.since, p.state, p.reason = cmd, from, ended, time.Now(), StateRunning, ""
	p.mu.Unlock()
	go func() {
		_ = cmd.Wait() // its state says more
		p.mu.Lock()
		defer p.mu.Unlock()
		p.since, p.reason = time.Now(), cmd.ProcessState.String()
		if p.state == StateRunning {
			p.state = StateExited
		}
		close(ended)
	}()
	return nil
}

// runBefore runs what has to be done before the program itself. What ctx cuts short is killed. What it prints is told only
// where it fails.
func (p *process) runBefore(ctx context.Context, born func(*exec.Cmd, io.Writer) error) error {
	all, err := p.program.before()
	if err != nil {
		return err
	}
	for _, args := range all {
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // what the node's kind says
		if err := born(cmd, &out); err != nil {
			return err
		}
		if err := cmd.Wait(); err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return fmt.Errorf("%s: %w%s", filepath.Base(args[0]), err, lastOf(out.Bytes(), "what it printed"))
		}
	}
	return nil
}

func (p *process) running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended != nil && !closed(p.ended)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// ready waits until the program listens on all its ports, and has said that it serves where it says so.
func (p *process) ready(ctx context.Context) error {
	p.mu.Lock()
	ended, from := p.ended, p.from
	p.mu.Unlock()
	p.op.Lock()
	says := p.program.says
	p.op.Unlock()
	var missing []uint16
	err := until(ctx, func() (bool, error) {
		if ended == nil || closed(ended) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return false, fmt.Errorf("node %s ended before it was ready (%s)%s", p.node.Name, p.reason, lastLines(p.logPath()))
		}
		open, err := listening(p.ns)
		missing = slices.DeleteFunc(slices.Clone(p.node.Ports), func(port uint16) bool { return open[port] })
		if err != nil || len(missing) > 0 || says == "" {
			return len(missing) == 0, err
		}
		return logged(p.logPath(), from, says)
	})
	switch {
	case err != nil && ctx.Err() != nil && len(missing) == 0:
		return fmt.Errorf("node %s listens, but does not serve yet: %w%s", p.node.Name, err, lastLines(p.logPath()))
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("node %s does not listen on %v yet: %w%s", p.node.Name, missing, err, lastLines(p.logPath()))
	}
	return err
}

// logged tells whether a text is in a log, which may be being written, from a place on.
func logged(path string, from int64, text string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // only read
	have, err := io.ReadAll(io.NewSectionReader(f, from, math.MaxInt64-from))
	return bytes.Contains(have, []byte(text)), err
}

// stop asks the program to end (SIGTERM) and waits until it has. What it leaves running is killed.
func (p *process) stop(ctx context.Context) error {
	p.op.Lock()
	defer p.op.Unlock()
	return p.end(ctx, StateStopped, func() error {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		return nil
	})
}

// kill ends the program and all its children at once (SIGKILL).
func (p *process) kill(ctx context.Context) error {
	p.op.Lock()
	defer p.op.Unlock()
	return p.end(ctx, StateKilled, func() error { return p.group.kill(ctx) })
}

func (p *process) end(ctx context.Context, state string, how func() error) error {
	if p.running() {
		p.mu.Lock()
		p.state = state
		ended := p.ended
		p.mu.Unlock()
		err := how()
		if err == nil {
			select {
			case <-ended:
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		if err != nil {
			p.mu.Lock()
			if !closed(ended) {
				p.state = StateRunning // it was asked, and goes on
			}
			p.mu.Unlock()
			return fmt.Errorf("end node %s: %w", p.node.Name, err)
		}
	}
	return p.group.kill(ctx)
}

// lastLines gives the end of a log for an error.
func lastLines(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return lastOf(text, filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path))
}

// lastOf gives the last lines of a text, each on its own line, without the frames of Java's stack traces.
func lastOf(text []byte, what string) string {
	const most, lines = 16 << 10, 12
	if len(text) == 0 {
		return ""
	}
	tail := strings.Split(strings.TrimSpace(string(text[max(0, len(text)-most):])), "\n")
	tail = slices.DeleteFunc(tail, func(line string) bool { return strings.HasPrefix(line, "\tat ") })
	tail = tail[max(0, len(tail)-lines):]
	return fmt.Sprintf("; the end of %s:\n  %s", what, strings.Join(tail, "\n  "))
}
