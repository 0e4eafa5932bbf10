package clients

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// request is one line of JSON for a program; programs/README.md says what the fields mean.
type request struct {
	Op        string `json:"op"`
	Bootstrap string `json:"bootstrap,omitempty"`
	Protocol  string `json:"protocol,omitempty"`
	CA        string `json:"ca"`
	Cert      string `json:"cert"`
	Key       string `json:"key"`
	Mechanism string `json:"mechanism"`
	User      string `json:"user"`
	Password  string `json:"password"`
	Topic     string `json:"topic,omitempty"`
	Group     string `json:"group,omitempty"`
	TxID      string `json:"txid,omitempty"`
	Count     int    `json:"count"`
	TimeoutMS int64  `json:"timeout_ms"`
	ClientID  string `json:"client_id,omitempty"`
	PauseMS   int64  `json:"pause_ms"`
	Size      int    `json:"size"`

	// What only some programs know.
	Compression   string `json:"compression,omitempty"`
	GroupProtocol string `json:"group_protocol,omitempty"`
	InstanceID    string `json:"instance_id,omitempty"`
}

// line is one line that a program printed, with when it came.
type line struct {
	at          time.Time
	total       int64   // ms, by the last line
	OK          bool    `json:"ok"`
	N           int     `json:"n"`
	Error       string  `json:"error"`
	Text        string  `json:"text"`
	Retriable   *bool   `json:"retriable"`
	Unsupported string  `json:"unsupported"`
	Done        bool    `json:"done"`
	MS          float64 `json:"ms"`
	Name        string  `json:"name"`
	Version     string  `json:"version"`
	Step        string  `json:"step"`
	Produced    int     `json:"produced"`
	Consumed    int     `json:"consumed"`
	Aborted     int     `json:"aborted"`
	Idempotent  *bool   `json:"idempotent"`
	Change      string  `json:"change"`     // of a member's partitions: assigned, revoked, lost
	Partitions  []int   `json:"partitions"` // that changed
	raw         string  // as it was printed
}

// took is how many milliseconds the operation took, by the program's own clock.
func (l *line) took() int64 { return l.total }

// said is the error of a line in a few words.
func (l *line) said() string {
	text := strings.Join(strings.Fields(l.Text), " ")
	if l.Error != "" && l.Error != "error" && !strings.HasPrefix(text, l.Error) {
		text = l.Error + ": " + text
	}
	return text
}

// running is a program that runs. Its lines come in as they are printed.
type running struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stderr *kit.Log
	done   chan struct{} // closed when it has ended

	answered int // lines that answer has returned

	mu    sync.Mutex
	lines []*line
	bad   string // a line that is no JSON
}

// start runs a program with one request. Its standard input stays open until end; it is killed when t ends.
func start(t *testing.T, command []string, r request) *running {
	t.Helper()
	p := &running{stderr: &kit.Log{}, done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p.cmd = exec.CommandContext(ctx, command[0], command[1:]...)
	p.cmd.Stderr, p.cmd.WaitDelay = p.stderr, time.Second
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", command[0], err)
	}
	go func() {
		p.read(stdout)
		_ = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		cancel()
		<-p.done
	})
	p.send(t, r)
	return p
}

// send gives the program a request.
func (p *running) send(t *testing.T, r request) {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.stdin.Write(append(b, '\n')); err != nil {
		t.Logf("write the request: %v", err) // it has ended, and says why
	}
}

// answer waits for the next line that says that a request is done, or for the program's end, and returns the lines up to there
// that were not returned before. It returns false when neither came in time.
func (p *running) answer(limit time.Duration) ([]*line, bool) {
	var found []*line
	ok := kit.Within(limit, func() bool {
		over := p.ended()
		lines := p.seen()[p.answered:]
		i := slices.IndexFunc(lines, func(l *line) bool { return l.Done })
		if i < 0 && !over {
			return false
		}
		if i < 0 {
			i = len(lines) - 1
		}
		found = lines[:i+1]
		p.answered += len(found)
		return true
	})
	if len(found) > 0 {
		for _, l := range found {
			l.total = int64(found[len(found)-1].MS)
		}
	}
	return found, ok
}

func (p *running) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *running) read(from io.Reader) {
	for s := bufio.NewScanner(from); s.Scan(); {
		l := &line{at: time.Now(), raw: s.Text()}
		if err := json.Unmarshal(s.Bytes(), l); err != nil {
			p.mu.Lock()
			p.bad = s.Text()
			p.mu.Unlock()
			continue
		}
		p.mu.Lock()
		p.lines = append(p.lines, l)
		p.mu.Unlock()
	}
}

// seen returns the lines so far.
func (p *running) seen() []*line {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// oks counts the rounds of a loop that went well after a time.
func (p *running) oks(after time.Time) int {
	n := 0
	for _, l := range p.seen() {
		if l.OK && l.at.After(after) {
			n++
		}
	}
	return n
}

// errors returns what rounds between two times failed with, each text once, in order.
func (p *running) errors(after, before time.Time) []*line {
	var found []*line
	for _, l := range p.seen() {
		if l.Error != "" && l.at.After(after) && l.at.Before(before) &&
			!slices.ContainsFunc(found, func(o *line) bool { return o.said() == l.said() }) {
			found = append(found, l)
		}
	}
	return found
}

// end closes standard input and waits for the program's end; it is killed after a while.
func (p *running) end(t *testing.T) {
	t.Helper()
	_ = p.stdin.Close()
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		t.Logf("the program went on for a minute after its input had ended, and was killed")
		_ = p.cmd.Process.Kill()
	}
}

// program is a client's program, by its command line.
type program struct {
	command []string
	serves  bool
	running *running // the one that serves, nil where none does yet
}

// asks is ask for an answer that a busy machine may be too slow for: what is not enough is asked again, once, with minutes of
// time, and under names of its own. Before runs ahead of each try, where it is not nil.
func (p *program) asks(t *testing.T, r request, enough func(*line) bool, before func()) *line {
	t.Helper()
	for again := false; ; again = true {
		if before != nil {
			before()
		}
		l := p.ask(t, r)
		if again || enough(l) {
			return l
		}
		t.Logf("asked again with more time: within %d ms %s said %q", r.TimeoutMS, r.Op, l.said())
		r.TimeoutMS = max(r.TimeoutMS, 120_000)
		r.TxID, r.Group = r.TxID+"-again", r.Group+"-again"
		if r.Op == "admin" {
			r.Topic += "-again"
		}
	}
}

// ask has the program do one request and returns the line that tells how it went: the first error, else the last of its lines. An
// end without such a line is an error of the program, told as class "crash".
func (p *program) ask(t *testing.T, r request) *line {
	t.Helper()
	if p.running == nil || p.running.ended() {
		p.running = start(t, p.command, r)
		if !p.serves {
			_ = p.running.stdin.Close()
		}
	} else {
		p.running.send(t, r)
	}
	lines, ok := p.running.answer(time.Duration(r.TimeoutMS)*time.Millisecond*2 + 60*time.Second)
	said, state := lastLine(p.running.stderr.String()), p.running
	if !p.serves || !ok {
		p.running = nil
	}
	if !ok {
		_ = state.cmd.Process.Kill()
		return &line{Error: "hang", Text: "it did not end: " + said}
	}
	var last *line
	for _, l := range lines {
		if l.Error != "" || l.Unsupported != "" {
			return l
		}
		if !l.Done {
			last = l
		}
	}
	if last == nil {
		return &line{Error: "crash", Text: fmt.Sprintf("no line of its own: %s %s", state.bad, said)}
	}
	return last
}
