// Package kit is what the black-box tests have in common: certificates, ports, what a process has said, and waiting. It knows
// nothing of brokerlab, as they do.
package kit

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// Patience is how long a thing may take that a quiet machine does at once. It is long, as a test that waits for it fails then,
// and a machine may have much else to do.
const Patience = 5 * time.Minute

// Told is how many lines of what a process said a failed test prints: its own message must be found beside them.
const Told = 25

// Eventually polls until ok says so, and fails tb with what it waited for when that takes longer than [Patience].
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	if !Within(Patience, ok) {
		tb.Fatalf("%s: not within %v", what, Patience)
	}
}

// Within polls until ok says so or the time is over, and returns whether it said so.
func Within(limit time.Duration, ok func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; <-tick.C {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// Log keeps what running processes say, for a test to read. Its zero value is empty and ready for use, by any goroutine.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write adds to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String is all that was said so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Last returns the last n lines of a text.
func Last(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
