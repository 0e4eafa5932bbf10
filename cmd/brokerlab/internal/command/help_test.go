package command

import (
	"net"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

func TestHelpFitsATerminal(t *testing.T) {
	root := newRoot(Env{}, "brokerlab")
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())
		got := run(t, append(path, "--help")...)
		if got.code != 0 {
			t.Errorf("%s --help = exit %d %s", c.CommandPath(), got.code, got.errout)
		}
		if c.Example == "" && !c.Hidden && (!c.HasParent() || !c.Parent().Hidden) {
			t.Errorf("%s --help has no example", c.CommandPath())
		}
		for line := range strings.Lines(got.out) {
			if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > helpWidth {
				t.Errorf("%s --help has a line of more than %d columns: %s", c.CommandPath(), helpWidth, line)
			}
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(root)
}

func TestAWrongCommandLineExitsWithTwoAndSaysWhereTheRightOneIs(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"nosuch"}, "there is no command brokerlab nosuch (see brokerlab --help)"},
		{[]string{"kernel", "shw"}, "did you mean show? (see brokerlab kernel --help)"},
		{[]string{"cluster", "shwo", "--bootstrap-server", "x:1"}, "did you mean show? (see brokerlab cluster --help)"},
		{[]string{"cluster", "--nosuch"}, "unknown flag: --nosuch (see brokerlab cluster --help)"},
		{[]string{"lab", "validate"}, "(see brokerlab lab validate --help)"},
		{[]string{"broker", "--nosuch"}, "unknown flag: --nosuch (see brokerlab broker --help)"},
		{[]string{"kernel", "show", "--port", "9092", "--listener", "SSL"}, "--listener needs --bootstrap-server"},
	} {
		got := run(t, append([]string{"brokerlab"}, test.args...)...)
		if got.code != 2 || got.out != "" || !strings.Contains(got.errout, test.want) {
			t.Errorf("brokerlab %v = exit %d %q %q, want 2, nothing and %q", test.args, got.code, got.out, got.errout, test.want)
		}
	}
}

func TestFiltersThatNoConnectionCanMatchAreRefused(t *testing.T) {
	got := run(t, "brokerlab", "connections", "list", "--bootstrap-server", "127.0.0.1:1", "--wide",
		"--client-address", "10.0.0", "--principal", "alice", "--protocol", "TLS")
	for _, want := range []string{`"10.0.0" is not an IP address`, "did you mean User:alice?", `"TLS" is none of PLAINTEXT, SSL`} {
		if got.code != 1 || !strings.Contains(got.errout, want) {
			t.Errorf("connections list = exit %d %q, want 1 and %q", got.code, got.errout, want)
		}
	}
}

func TestAListenerThatHangsUpIsAskedForItsProtocol(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1024))
			_ = c.Close()
		}
	}()
	got := run(t, "brokerlab", "connections", "list", "--bootstrap-server", l.Addr().String())
	if got.code != 1 || !strings.Contains(got.errout, "--command-config") {
		t.Errorf("connections list = exit %d %q, want 1 and a hint at --command-config", got.code, got.errout)
	}
}
