package stage

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/brokerlab/brokerlab/netlab"
)

// Job is a program that runs in one of the stage's client networks, as on a machine of a client. It knows the stage's brokers by their
// names. Safe for concurrent use.
type Job struct {
	input   *os.File
	process *os.Process
	ended   chan struct{}
	err     error // how it ended, once ended is closed
}

// Job starts a program in the client network with this prefix; its standard input is [Job.Tell]'s. It is killed when the spec ends.
func (s *Stage) Job(ctx context.Context, prefix string, c netlab.Command) *Job {
	GinkgoHelper()
	read, write, err := os.Pipe()
	Expect(err).NotTo(HaveOccurred())
	subnet := s.Network(prefix).subnet.Name
	j := &Job{input: write, ended: make(chan struct{})}
	started := make(chan *os.Process, 1)
	c.Stdin, c.Started = read, func(p *os.Process) { started <- p }
	go func() {
		defer close(j.ended)
		j.err = errors.Join(s.lab.Exec(context.WithoutCancel(ctx), subnet, c), read.Close())
	}()
	DeferCleanup(func(ctx SpecContext) { //nolint:contextcheck // the spec's own context has ended by then
		j.Kill()
		j.HangUp()
		Eventually(j.ended).WithContext(ctx).WithTimeout(downTime).Should(BeClosed(), "%s is gone", c.Args[0])
	})
	select {
	case j.process = <-started:
	case <-j.ended:
		Expect(j.err).NotTo(HaveOccurred(), "start %v", c.Args)
	}
	return j
}

// Tell writes a line to the program's standard input.
func (j *Job) Tell(line string) error {
	_, err := j.input.WriteString(line + "\n")
	return err
}

// HangUp ends the program's standard input. Hanging up twice is fine.
func (j *Job) HangUp() { _ = j.input.Close() }

// Kill ends the program with SIGKILL; one that has ended is left alone.
func (j *Job) Kill() {
	if j.process != nil {
		_ = j.process.Kill() // it has ended by itself
	}
}

// Ended is closed once the program has ended.
func (j *Job) Ended() <-chan struct{} { return j.ended }

// Code waits until the program has ended, and is its exit status; -1 if a signal ended it.
func (j *Job) Code(ctx context.Context) int {
	GinkgoHelper()
	select {
	case <-j.ended:
	case <-ctx.Done():
		Expect(ctx.Err()).NotTo(HaveOccurred(), "the program has not ended")
	}
	if status, ok := errors.AsType[*exec.ExitError](j.err); ok {
		return status.ExitCode()
	}
	Expect(j.err).NotTo(HaveOccurred())
	return 0
}

// Lines is what a program prints, a line at a time. It is not safe for concurrent use: one stream of one program writes to it.
type Lines struct {
	Each func(line string)

	begun []byte // of a line that has no end yet
}

// Write takes text in and passes whole lines on.
func (l *Lines) Write(text []byte) (int, error) {
	l.begun = append(l.begun, text...)
	for {
		line, rest, ok := bytes.Cut(l.begun, []byte("\n"))
		if !ok {
			return len(text), nil
		}
		l.Each(string(line))
		l.begun = rest
	}
}
