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

func TestLinesOfPromisesFitTheScreen(t *testing.T) {
	word := strings.Repeat("ü", 24)
	long := strings.Repeat("x", 150)
	for _, tt := range []struct{ line, want string }{
		{"short", "short"},
		{strings.Repeat("é", lineWidth), strings.Repeat("é", lineWidth)},
		{strings.Join([]string{word, word, word, word, "e"}, " "), strings.Join([]string{word, word, word, word}, " ") + "\n      e"},
		{long + " end", long + "\n      end"},
		{"✗ [1/2] " + long, "✗ [1/2]\n      " + long},
		{margin + long, margin + long},
	} {
		if got := fold(tt.line); got != tt.want {
			t.Errorf("fold(%q) = %q, want %q", tt.line, got, tt.want)
		}
	}
}
