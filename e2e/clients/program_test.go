package clients

import (
	"bufio"
	"bytes"
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
	stderr *lockedBuffer
	done   chan struct{} // closed when it has ended

	mu    sync.Mutex
	lines []*line
	bad   string // a line that is no JSON
}

// start runs a program with one request. Its standard input stays open until end; it is killed when t ends.
func start(t *testing.T, command []string, r request) *running {
	t.Helper()
	p := &running{stderr: &lockedBuffer{}, done: make(chan struct{})}
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
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stdin.Write(append(b, '\n')); err != nil {
		t.Errorf("write the request: %v", err)
	}
	return p
}

func (p *running) read(from io.Reader) {
	for s := bufio.NewScanner(from); s.Scan(); {
		l := &line{at: time.Now()}
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
	case <-time.After(20 * time.Second):
		t.Logf("the program went on for 20 s after its input had ended, and was killed")
		_ = p.cmd.Process.Kill()
	}
}

// ask runs a program with one request to its end and returns the line that tells how it went: the first error, else the last
// of its lines. An end without such a line is
// an error of the program, told as class "crash".
func ask(t *testing.T, command []string, r request) *line {
	t.Helper()
	p := start(t, command, r)
	// The program ends in its own time; what hangs is killed long after.
	limit := time.Duration(r.TimeoutMS)*time.Millisecond*2 + 60*time.Second
	if r.Op != "loop" {
		_ = p.stdin.Close()
	}
	select {
	case <-p.done:
	case <-time.After(limit):
		_ = p.cmd.Process.Kill()
		<-p.done
		return &line{Error: "hang", Text: fmt.Sprintf("no end %v after its start: %s", limit, lastLine(p.stderr.String()))}
	}
	var last *line
	lines := p.seen()
	total := int64(0)
	if len(lines) > 0 {
		total = int64(lines[len(lines)-1].MS)
	}
	for _, l := range lines {
		l.total = total
		if !l.Done {
			last = l
		}
		if l.Error != "" || l.Unsupported != "" {
			return l
		}
	}
	if last != nil {
		return last
	}
	return &line{Error: "crash", Text: fmt.Sprintf("no line of its own, %v; %s %s", p.cmd.ProcessState, p.bad, lastLine(p.stderr.String()))}
}

// lockedBuffer is a buffer that a running process writes and the test reads.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
