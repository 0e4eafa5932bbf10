package runner

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestOnATerminalThePromiseThatIsTriedIsShownInPlace(t *testing.T) {
	var out bytes.Buffer
	p := &progress{out: &out, total: 9, live: true}
	p.still("A promise "+strings.Repeat("é", 200), 3*time.Second)
	p.print("✓ kept\n")
	if got := out.String(); !strings.HasPrefix(got, "\r\x1b[K… [1/9] A promise é") || !strings.HasSuffix(got, "… 3s\r\x1b[K✓ kept\n") || len([]rune(got)) > 130 {
		t.Errorf("printed %q, want a short line in place, and the next over it", got)
	}
}

func TestOffATerminalAPromiseIsNamedOnlyOnceItTakesLong(t *testing.T) {
	var out bytes.Buffer
	p := &progress{out: &out, total: 9}
	p.still("A promise", 0)
	p.still("A promise", 10*time.Second)
	if got, want := out.String(), "… A promise: 10s so far\n"; got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}
