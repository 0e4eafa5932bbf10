// Package pipe drives clients that are commands: one that sends each line of its standard input as a record, and one that prints
// each record as a line.
package pipe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Run runs a command to its end and returns what it printed on standard output, and what told picks out of what it said on either
// stream. That is its error, too, where it failed. What runs when ctx ends is asked to stop, and killed if it does not.
func Run(ctx context.Context, stdin string, told func(string) string, command ...string) (out, said string, err error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the client is what is run
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 3 * time.Second
	err = cmd.Run()
	said = told(stderr.String() + "\n" + stdout.String())
	switch {
	case err == nil:
		return stdout.String(), said, nil
	case ctx.Err() != nil:
		return stdout.String(), said, fmt.Errorf("%w; it said: %s", ctx.Err(), said)
	case said == "":
		return stdout.String(), said, err
	}
	return stdout.String(), said, errors.New(said)
}

// Process is a command that goes on.
type Process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	Lines chan string // of its standard output
	done  chan struct{}

	mu     sync.Mutex
	stderr []string
}

// Start starts a command. Its standard input is a pipe.
func Start(command ...string) (*Process, error) {
	cmd := exec.Command(command[0], command[1:]...) //nolint:gosec,noctx // the client is what is run, and it outlives the call
	p := &Process{cmd: cmd, Lines: make(chan string, 10_000), done: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // nobody else would end it
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		for s := bufio.NewScanner(stdout); s.Scan(); {
			select {
			case p.Lines <- s.Text():
			default: // nobody reads what a producer prints
			}
		}
	})
	reading.Go(func() {
		for s := bufio.NewScanner(stderr); s.Scan(); {
			p.mu.Lock()
			p.stderr = append(p.stderr, s.Text())
			p.mu.Unlock()
		}
	})
	go func() {
		reading.Wait()
		_ = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// Write writes a line to its standard input.
func (p *Process) Write(line string) error {
	_, err := io.WriteString(p.stdin, line+"\n")
	return err
}

// End closes its standard input.
func (p *Process) End() { _ = p.stdin.Close() }

// Signal sends it a signal.
func (p *Process) Signal(s os.Signal) { _ = p.cmd.Process.Signal(s) }

// Done is closed when it has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended says whether it has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Kill ends it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Said returns what it wrote to standard error since it was asked last.
func (p *Process) Said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := strings.Join(p.stderr, "\n")
	p.stderr = nil
	return text
}

// Session is a producer and a consumer that go on; it is a session of a loop.
type Session struct {
	producer, consumer *Process
	told               func(string) string

	// Pad is the length that lines for the producer are filled up to with blanks: one that reads blocks of its input sees no
	// line before a block is full.
	Pad int
}

// Open starts the two commands. The function picks out of what they say on standard error what is an error.
func Open(producer, consumer []string, told func(string) string) (*Session, error) {
	c, err := Start(consumer...)
	if err != nil {
		return nil, err
	}
	p, err := Start(producer...)
	if err != nil {
		c.Kill()
		return nil, err
	}
	return &Session{producer: p, consumer: c, told: told}, nil
}

// Round sends value and returns when it was printed, or why not.
func (s *Session) Round(ctx context.Context, value string) error {
	if err := s.producer.Write(Padded(value, s.Pad)); err != nil {
		return fmt.Errorf("produce: it has ended: %s", s.told(s.producer.Said()))
	}
	for {
		select {
		case line := <-s.consumer.Lines:
			if strings.TrimSpace(line) == value {
				return nil
			}
		case <-s.producer.Done():
			return fmt.Errorf("produce: it has ended: %s", s.told(s.producer.Said()))
		case <-s.consumer.Done():
			return fmt.Errorf("consume: it has ended: %s", s.told(s.consumer.Said()))
		case <-ctx.Done():
			if said := s.told(s.producer.Said()); said != "" {
				return fmt.Errorf("produce: %w; it said: %s", ctx.Err(), said)
			}
			return fmt.Errorf("consume: %w; it said: %s", ctx.Err(), s.told(s.consumer.Said()))
		}
	}
}

// Padded is a line that takes whole blocks of n bytes with its end; n of 0 leaves it as it is.
func Padded(line string, n int) string {
	if n == 0 {
		return line
	}
	return line + strings.Repeat(" ", (n-(len(line)+1)%n)%n)
}

// Dead says whether one of the two has ended, so that both are to be started again.
func (s *Session) Dead() bool { return s.producer.Ended() || s.consumer.Ended() }

// Close ends both: the consumer leaves its group where it has time for that.
func (s *Session) Close() {
	s.producer.End()
	s.consumer.Signal(syscall.SIGTERM)
	for _, p := range []*Process{s.producer, s.consumer} {
		select {
		case <-p.Done():
		case <-time.After(3 * time.Second):
			p.Kill()
		}
	}
}
