package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// notPasted lists the commands whose examples need more than a broker and a shell, and what.
func notPasted() map[string]string {
	return map[string]string{
		"brokerlab broker":               "a server.properties; guide-broker.md",
		"brokerlab clients":              "clients that tell their configs; guide-config-push.md",
		"brokerlab check":                "a lab; reproduce-acls.md",
		"brokerlab connections watch":    "somebody who looks; the tests of connections",
		"brokerlab engine":               "brokers before it; guide-cluster.md",
		"brokerlab fleet":                "workers; distributed.md",
		"brokerlab kafka":                "Maven; guide-kafka.md",
		"brokerlab kernel":               "a lab; guide-kernel.md",
		"brokerlab lab":                  "a lab; guide-lab.md",
		"brokerlab run":                  "minutes; guide-suites.md",
		"brokerlab bench":                "minutes; benchmark-limits.md",
		"brokerlab limits":               "connections that wait; guide-limits.md",
		"brokerlab connections timeline": "somebody whose connection it is; guide-limits.md",
		"brokerlab doctor":               "a kernel that has everything, and one that has not",
		"brokerlab connections close":    "somebody to close; guide-limits.md",
	}
}

// What --help gives as an example works as it is pasted, in the root of the tree, but for the broker's address.
func TestTheExamplesOfHelpWork(t *testing.T) {
	needKcat(t)
	b := startBroker(t, authorized()...)
	mustRun(t, "x\n", "kcat", b.kcat("PLAINTEXT", "-P", "-t", "orders")...)
	bin := t.TempDir()
	if err := os.Symlink(path(t), filepath.Join(bin, "brokerlab")); err != nil {
		t.Fatal(err)
	}
	pasted := 0
	var paste func(command []string)
	paste = func(command []string) {
		name := strings.Join(command, " ")
		if _, ok := notPasted()[name]; ok {
			return
		}
		help := mustRun(t, "", path(t), append(command[1:], "--help")...)
		if examples := section(help, "Examples"); examples != "" {
			pasted++
			pasteExamples(t, bin, name, strings.ReplaceAll(examples, "localhost:9092", b.address("PLAINTEXT")))
		}
		for _, m := range regexp.MustCompile(`(?m)^ {2}([a-z-]+) `).FindAllStringSubmatch(section(help, "Available Commands"), -1) {
			if m[1] != "help" && m[1] != "completion" {
				paste(append(slices.Clip(command), m[1]))
			}
		}
	}
	paste([]string{"brokerlab"})
	if pasted < 15 {
		t.Errorf("only %d commands have examples", pasted)
	}
}

// section is a part of what --help prints.
func section(help, name string) string {
	_, rest, _ := strings.Cut(help, "\n"+name+":\n")
	text, _, _ := strings.Cut(rest, "\n\n")
	return text
}

func pasteExamples(t *testing.T, bin, name, examples string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), kit.Patience)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-euxo", "pipefail", "-c", examples)
	shell.Dir = ".."
	shell.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	if out, err := shell.CombinedOutput(); err != nil {
		t.Errorf("examples of %s: %v\n%s", name, err, kit.Last(string(out), kit.Told))
	}
}
