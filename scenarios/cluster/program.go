package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"

	"github.com/brokerlab/brokerlab/netlab"
	"github.com/brokerlab/brokerlab/scenarios/stage"
)

// program is clients of another library, as a process in the clients' network: one that produces by password over TLS, and one that
// consumes by certificate.
type program struct {
	job     *stage.Job
	settled chan struct{} // closed once it produces no more, and each record had an answer
}

// beginProgram starts a program; files are ending of its library's configurations in the lab.
func beginProgram(ctx context.Context, s *stage.Stage, k kind, line []string, j *journal) *program {
	GinkgoHelper()
	const produces, consumes = "SASL_SSL", "SSL"
	config := s.Lab().Properties
	if k == librdkafka {
		config = func(listener, user string) string {
			return strings.TrimSuffix(s.Lab().Properties(listener, user), ".properties") + ".kcat"
		}
	}
	p := &program{settled: make(chan struct{})}
	settle := sync.OnceFunc(func() { close(p.settled) })
	p.job = s.Job(ctx, office, netlab.Command{
		Args: append(line, config(produces, "alice"), config(consumes, "bob"), s.Bootstrap(produces), s.Bootstrap(consumes),
			topic, strconv.Itoa(partitions), k.group(), strconv.FormatInt(pace.Milliseconds(), 10)),
		Stdout: &stage.Lines{Each: func(line string) {
			if line == "settled" {
				settle()
			} else if !note(j, k, line) {
				GinkgoWriter.Println(k, line)
			}
		}},
		Stderr: &stage.Lines{Each: func(line string) { GinkgoWriter.Println(k, line) }},
	})
	return p
}

// note takes a line of a program into the journal; false: it is none for it.
func note(j *journal, k kind, line string) bool {
	const all = 4 // words: the last is a text
	words := strings.SplitN(line, " ", all)
	if words[0] == "got" {
		j.got(k, strings.TrimPrefix(line, "got "))
		return true
	}
	if words[0] != "acked" && words[0] != "refused" || len(words) < all {
		return false
	}
	partition, err := strconv.ParseInt(words[1], 10, 32)
	if err != nil {
		return false
	}
	l, value := lane{k, int32(partition)}, strings.ToLower(string(k))+"-"+words[2]
	if words[0] == "refused" {
		j.refuse(l, words[3])
		return true
	}
	offset, err := strconv.ParseInt(words[3], 10, 64)
	if err != nil {
		return false
	}
	j.acknowledge(l, value, offset)
	return true
}

// errGone is returned for a program that ended by itself.
var errGone = errors.New("the program has ended")

// settle ends the producing, and waits until each record has an answer.
func (p *program) settle(ctx context.Context) error {
	if err := p.job.Tell("stop"); err != nil {
		return fmt.Errorf("stop it: %w", err)
	}
	select {
	case <-p.settled:
		return nil
	case <-p.job.Ended():
		return errGone
	case <-ctx.Done():
		return fmt.Errorf("records without an answer: %w", ctx.Err())
	}
}

// end ends the program, kindly first.
func (p *program) end(ctx context.Context) {
	p.job.HangUp()
	select {
	case <-p.job.Ended():
	case <-ctx.Done():
		p.job.Kill()
	}
}
