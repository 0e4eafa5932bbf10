package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// consoleProducer stands in for Kafka's script where it is not installed: it takes the same options, and sends through kcat
// only if the properties file is there and names the same brokers.
const consoleProducer = `#!/bin/bash -eu
[ "$1 $3 $5" = "--bootstrap-server --producer.config --topic" ]
grep -qxF "bootstrap.servers=$2" "$4"
exec kcat -F "${4%.properties}.kcat" -P -t "$6"
`

func TestThePrintedCommandsProduceAndConsume(t *testing.T) {
	needRoot(t)
	needKcat(t)
	port := kit.FreePort()
	file := writeFile(t, t.TempDir(), "paste.yaml", `
name: e2e-paste
nodes:
  b1: {kind: broker, expose: [`+strconv.Itoa(port)+`]}
subnets:
  six: {cidr: "fd00:9::/64"}
  four: {cidr: 10.9.0.0/24}
users: {alice: {}, bob: {}}
`)
	t.Cleanup(func() { mustRun(t, "", path(t), "lab", "down", file) })
	mustRun(t, "", path(t), "lab", "up", file)
	bin := t.TempDir()
	if err := os.Symlink(path(t), filepath.Join(bin, "brokerlab")); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("kafka-console-producer.sh"); err != nil {
		script := writeFile(t, bin, "kafka-console-producer.sh", consoleProducer)
		if err := os.Chmod(script, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	out := mustRun(t, "", path(t), "lab", "inspect", file, "--wide")
	_, lines, ok := strings.Cut(out, "\nTo paste:\n")
	if !ok {
		t.Fatalf("inspect prints nothing to paste:\n%s", out)
	}
	commands := 0
	for line := range strings.Lines(strings.ReplaceAll(lines, " \\\n", " ")) { // a command may go on in the next line
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		commands++
		r := run(t, "", "env", "PATH="+bin+":"+os.Getenv("PATH"), "bash", "-euo", "pipefail", "-c", line)
		if r.code != 0 || strings.Contains(line, " -C ") && !strings.HasPrefix(r.stdout, "hello\n") {
			t.Errorf("%s: exit %d, printed %q\n%s", line, r.code, r.stdout, r.stderr)
		}
	}
	if want := 3 * 5; commands != want { // three a listener: four, and one exposed
		t.Errorf("inspect prints %d commands, want %d:\n%s", commands, want, lines)
	}
}

func TestPlacesOfALabFindNodesByName(t *testing.T) {
	needRoot(t)
	file := writeFile(t, t.TempDir(), "names.yaml", `
name: e2e-names
nodes:
  b1: {kind: broker}
  web: {kind: exec, cmd: "sleep infinity"}
subnets: {four: {cidr: 10.9.0.0/24}, six: {cidr: "fd00:9::/64"}}
`)
	t.Cleanup(func() { mustRun(t, "", path(t), "lab", "down", file) })
	mustRun(t, "", path(t), "lab", "up", file)
	for _, place := range []string{"b1", "web", "four", "six"} {
		for _, name := range []string{"b1", "web"} {
			mustRun(t, "", path(t), "lab", "exec", file, place, "--", "getent", "hosts", name)
		}
		// Names lead somewhere: this is the command's own connection to the broker.
		got := mustRun(t, "", path(t), "lab", "exec", file, place, "--", path(t), "connections", "list", "--bootstrap-server", "b1:9092")
		if !strings.Contains(got, "PLAINTEXT") {
			t.Errorf("from %s: %s, want a connection", place, got)
		}
	}
}
