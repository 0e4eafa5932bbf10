package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// A guide's commands are its ```sh blocks. They run in order, in one shell, in the root of the tree, with the binary
// under test first in PATH: what the reader pastes is what is tested.
func TestTheCommandsOfTheGuidesWork(t *testing.T) { //nolint:tparallel // beside each other, not beside tests that build the same labs
	needRoot(t)
	needKcat(t)
	guides, err := filepath.Glob("../docs/guide-*.md")
	if err != nil || len(guides) == 0 {
		t.Fatalf("guides = %v, %v", guides, err)
	}
	guides = append(guides, "../docs/reproduce-acls.md", "../docs/benchmark-limits.md", "../docs/hostile-clients.md", "../docs/distributed.md")
	bin := t.TempDir()
	if err := os.Symlink(path(t), filepath.Join(bin, "brokerlab")); err != nil {
		t.Fatal(err)
	}
	port := regexp.MustCompile(`\b(?:1[89]|2\d)\d{3}\b`)
	user := map[string]string{}
	for _, guide := range guides {
		for _, p := range port.FindAllString(read(t, guide), -1) {
			if other := user[p]; other != "" && other != guide {
				t.Errorf("%s and %s both use port %s, and run side by side", other, guide, p)
			}
			user[p] = guide
		}
	}
	block := regexp.MustCompile("(?s)\n```sh\n(.*?\n)```\n")
	refused := regexp.MustCompile(`(?m)^! ((?:.*\\\n)*.*)$`) // bash -e does not mind when such a command works
	waiting := regexp.MustCompile(`timeout \d+ bash -c `)    // a reader's machine does nothing else meanwhile
	for _, guide := range guides {
		t.Run(filepath.Base(guide), func(t *testing.T) {
			t.Parallel() // no two share a port or the name of a lab; most of their time is waiting
			for _, version := range kafkaVersions(read(t, guide)) {
				needKafka(t, version)
			}
			script := &strings.Builder{}
			for _, m := range block.FindAllStringSubmatch(read(t, guide), -1) {
				script.WriteString(m[1])
			}
			if script.Len() == 0 {
				t.Fatal("no commands")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*kit.Patience)
			defer cancel()
			commands := refused.ReplaceAllString(script.String(), "if $1; then exit 1; fi")
			commands = waiting.ReplaceAllString(commands, fmt.Sprintf("timeout %.0f bash -c ", kit.Patience.Seconds()))
			shell := exec.CommandContext(ctx, "bash", "-euxo", "pipefail", "-c", commands)
			shell.Dir = ".."
			shell.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
			if out, err := shell.CombinedOutput(); err != nil {
				t.Errorf("%v; the last of it:\n%s", err, kit.Last(string(out), kit.Told))
			}
		})
	}
}
