package command

import (
	"io"
	"sync"
	"time"
)

// quiet is how long something may take without telling what it does.
const quiet = 2 * time.Second

// progress tells what is going on once it has taken longer than [quiet]: in one line of a terminal, which goes away at
// the end, or a line every few seconds elsewhere.
type progress struct {
	w        io.Writer
	terminal bool
	done     chan struct{}
	ended    sync.WaitGroup

	mu   sync.Mutex // guards text
	text string
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, terminal: isTerminal(w), done: make(chan struct{})}
	p.ended.Go(p.run)
	return p
}

func (p *progress) set(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

func (p *progress) run() {
	every := 100 * time.Millisecond
	if !p.terminal {
		every = quiet
	}
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	shown := ""
	for {
		select {
		case <-p.done:
			if p.terminal && shown != "" {
				_, _ = io.WriteString(p.w, "\r\x1b[K")
			}
			return
		case <-timer.C:
		}
		timer.Reset(every)
		p.mu.Lock()
		text := p.text
		p.mu.Unlock()
		switch {
		case text == shown:
		case p.terminal:
			_, _ = io.WriteString(p.w, "\r\x1b[K"+text)
		default:
			_, _ = io.WriteString(p.w, text+"\n")
		}
		shown = text
	}
}

func (p *progress) stop() {
	close(p.done)
	p.ended.Wait()
}
