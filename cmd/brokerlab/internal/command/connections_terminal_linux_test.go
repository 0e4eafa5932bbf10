package command

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sys/unix"

	"github.com/brokerlab/brokerlab/broker/admin/admintest"
	"github.com/brokerlab/brokerlab/broker/protocol"
)

// terminal is a pseudo-terminal: what is written to tty is read from screen.
func terminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	if err = unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return screen, tty
}

func TestWatchRefreshesATerminalInPlace(t *testing.T) {
	t.Parallel()
	evil := "User:\x1b[31m\u009b2J" + strings.Repeat("x", 300)
	l := &listing{rows: []protocol.ListClientConnectionsResponseConnection{
		row("a", evil, "10.0.0.1", 1, "x/1", 1), row("b", "User:bob", "10.0.0.1", 1, "x/1", 1), row("c", "User:bob", "10.0.0.1", 1, "x/1", 1),
	}}
	c := admintest.Start(t, l.broker(1))
	screen, tty := terminal(t)
	var errout strings.Builder
	code := Run(t.Context(), []string{
		"brokerlab", "connections", "watch", "--bootstrap-server", c.Addr(0), "--group-by", "principal", "--limit", "2", "--count", "2", "--interval", "1ms",
	}, Env{Stdin: strings.NewReader(""), Stdout: tty, Stderr: &errout})
	if code != 0 {
		t.Fatalf("watch = %d, %s", code, errout.String())
	}
	var drawn strings.Builder
	for b := make([]byte, 1<<12); strings.Count(drawn.String(), "\n") < 2*5; {
		n, err := screen.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		drawn.Write(b[:n])
	}
	pictures := strings.Split(drawn.String(), refresh)
	if len(pictures) != 3 || pictures[0] != "" {
		t.Fatalf("watch drew %d pictures, want 2: %q", len(pictures)-1, pictures)
	}
	for _, p := range pictures[1:] {
		lines := strings.Split(strings.TrimRight(p, "\r\n"), "\r\n")
		if len(lines) != 5 || !strings.Contains(lines[0], "3 connections") || !strings.HasPrefix(lines[3], "User:bob ") || !strings.HasPrefix(lines[4], `User:\x1b[31m`) {
			t.Errorf("picture = %q", lines)
		}
		for _, line := range lines {
			if strings.ContainsAny(line, "\x1b\u009b") || utf8.RuneCountInString(line) > tableWidth {
				t.Errorf("line = %q", line)
			}
		}
	}
}

func TestWatchingLimitsRefreshesATerminalInPlaceWithoutWhatIsOff(t *testing.T) {
	t.Parallel()
	c := admintest.Start(t, answering(1, protocol.DefaultDescribeLimitsKey, func(kmsg.Request) kmsg.Response { return fullListener(1) }))
	screen, tty := terminal(t)
	var errout strings.Builder
	code := Run(t.Context(), []string{"brokerlab", "limits", "watch", "--bootstrap-server", c.Addr(0), "--count", "2", "--interval", "1ms"},
		Env{Stdin: strings.NewReader(""), Stdout: tty, Stderr: &errout})
	if code != 0 {
		t.Fatalf("watch = %d, %s", code, errout.String())
	}
	var drawn strings.Builder
	for b := make([]byte, 1<<12); strings.Count(drawn.String(), "addresses are shown") < 2; {
		n, err := screen.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		drawn.Write(b[:n])
	}
	pictures := strings.Split(drawn.String(), refresh)
	if len(pictures) != 3 || pictures[0] != "" {
		t.Fatalf("watch drew %d pictures, want 2: %q", len(pictures)-1, pictures)
	}
	for _, p := range pictures[1:] {
		const rows = 24
		if !strings.Contains(p, "127.0.0.5     1.5s") || strings.Contains(p, "max.connection.creation.rate  broker") || strings.Count(p, "\n") > rows {
			t.Errorf("picture = %s", p)
		}
	}
}

func TestALogInJSONHasNoCharacterThatSteersATerminal(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	evil := "CN=\u009b2J\x1b[2J\u202e\x7f"
	slog.New(slog.NewJSONHandler(jsonWriter{&out}, nil)).Info("listed connections", slog.String("principal", evil))
	var line struct{ Principal string }
	if err := json.Unmarshal([]byte(out.String()), &line); err != nil || line.Principal != evil || strings.ContainsAny(out.String(), "\u009b\x1b\u202e\x7f") {
		t.Errorf("log line = %q, %v", out.String(), err)
	}
}
