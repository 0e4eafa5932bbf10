package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// hold runs a client until the test ends.
func hold(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the context of the test has ended it
}

func TestTheScriptsLinkTakesTheKIPsCommandLine(t *testing.T) {
	b := startBroker(t)
	link := filepath.Join(t.TempDir(), "kafka-client-connections.sh")
	if err := os.Symlink(path(t), link); err != nil {
		t.Fatal(err)
	}
	silent, err := net.Dial("tcp", b.address("SSL"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()

	out := mustRun(t, "", link, "--bootstrap-server", b.address("SASL_SSL"), "--command-config", b.clientProperties(t, "SASL_SSL", false), "--list")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	header := []string{"CONNECTION-ID", "PRINCIPAL", "CLIENT-ADDRESS", "PORT", "LISTENER", "PROTOCOL", "SOFTWARE", "CONNECTED-SINCE"}
	if got := strings.Fields(lines[0]); !slices.Equal(got, header) {
		t.Errorf("header = %q, want %q", got, header)
	}
	port := silent.LocalAddr().(*net.TCPAddr).AddrPort().Port()
	if !slices.ContainsFunc(lines[1:], func(row string) bool {
		f := strings.Fields(row)
		return len(f) == 8 && f[1] == "User:ANONYMOUS" && f[2] == "127.0.0.1" && f[3] == itoa(port) && f[4] == "SSL" && f[5] == "SSL" && f[6] == "-"
	}) {
		t.Errorf("no row for the silent client 127.0.0.1:%d in:\n%s", port, out)
	}
	if !strings.Contains(out, "User:alice") {
		t.Errorf("the asking connection itself, User:alice, is not in:\n%s", out)
	}

	only := mustRun(t, "", link, "--bootstrap-server", b.address("PLAINTEXT"), "--list", "--listener", "ssl", "--client-address", "::ffff:127.0.0.1")
	if n := strings.Count(only, "\n"); n != 2 {
		t.Errorf("filtered by listener: %d lines, want the header and one row:\n%s", n, only)
	}
	if r := run(t, "", link, "--bootstrap-server", b.address("PLAINTEXT")); r.code == 0 || !strings.Contains(r.stderr, "--list") {
		t.Errorf("without --list: exit %d, said %q; want a failure that names --list", r.code, r.stderr)
	}
}

func TestAnUnreachableBrokerIsAClearError(t *testing.T) {
	r := brokerlab(t, "connections", "list", "--bootstrap-server", "127.0.0.1:"+itoa(uint16(kit.FreePort())))
	if r.code != 1 || !strings.Contains(r.stderr, "127.0.0.1") || r.stdout != "" {
		t.Errorf("exit %d, stdout %q, stderr %q; want 1, nothing, and the address", r.code, r.stdout, r.stderr)
	}
}
