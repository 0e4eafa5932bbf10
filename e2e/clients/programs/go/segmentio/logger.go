package main

import (
	"fmt"
	"sync"
)

// logger keeps the last line of a log.
type logger struct {
	mu   sync.Mutex
	text string
}

// Printf is what kafka-go wants of a logger.
func (l *logger) Printf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = fmt.Sprintf(format, args...)
}

// explain adds to err what the log said last, and forgets it.
func (l *logger) explain(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.text == "" {
		return err
	}
	text := l.text
	l.text = ""
	return fmt.Errorf("%w (its log: %s)", err, text)
}
