package netlab

import (
	"context"
	"errors"
	"fmt"
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
	args  []string
	env   []string
	ns    *netns.Handle
	view  netns.View
	group cgroup

	op sync.Mutex // held during an operation; taken before mu

	mu     sync.Mutex // guards what follows
	cmd    *exec.Cmd
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
	if err := p.launch(); err != nil {
		return fmt.Errorf("start node %s: %w", p.node.Name, err)
	}
	return nil
}

func (p *process) launch() error {
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
	defer log.Close()                             //nolint:errcheck // the process has its own
	cmd := exec.Command(p.args[0], p.args[1:]...) //nolint:gosec,noctx // running what the lab file says is the purpose; it outlives any context
	if self, _ := os.Executable(); self == p.args[0] {
		cmd.Path = "/proc/self/exe" // the file may have been replaced or removed since: go run does so
	}
	cmd.Dir, cmd.Env = folder, append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, UseCgroupFD: true, CgroupFD: int(group.Fd())}
	err = p.ns.Start(p.view, cmd.Start)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	p.mu.Lock()
	p.cmd, p.ended, p.since, p.state, p.reason = cmd, ended, time.Now(), StateRunning, ""
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

// ready waits until the program listens on all its ports.
func (p *process) ready(ctx context.Context) error {
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	var missing []uint16
	err := until(ctx, func() (bool, error) {
		if ended == nil || closed(ended) {
			p.mu.Lock()
			defer p.mu.Unlock()
			return false, fmt.Errorf("node %s ended before it was ready (%s)%s", p.node.Name, p.reason, lastLines(p.logPath()))
		}
		open, err := listening(p.ns)
		missing = slices.DeleteFunc(slices.Clone(p.node.Ports), func(port uint16) bool { return open[port] })
		return len(missing) == 0, err
	})
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("node %s does not listen on %v yet: %w%s", p.node.Name, missing, err, lastLines(p.logPath()))
	}
	return err
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

// lastLines gives the end of a log for an error, on lines of its own.
func lastLines(path string) string {
	const most, lines = 4096, 12
	text, err := os.ReadFile(path)
	if err != nil || len(text) == 0 {
		return ""
	}
	tail := strings.Split(strings.TrimSpace(string(text[max(0, len(text)-most):])), "\n")
	tail = tail[max(0, len(tail)-lines):]
	return fmt.Sprintf("; the end of %s:\n  %s", filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), strings.Join(tail, "\n  "))
}
