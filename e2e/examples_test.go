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
	"time"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// examples are the files of examples/, each with what its commands print.
func examples() map[string][]string {
	return map[string][]string{
		"dual-stack.yaml": {"10.1.0.1", "2001:db8:1:0:0:0:0:1", "10.2.0.1", "2001:db8:2:0:0:0:0:1"},
		"exec.yaml":       {"200\n200\n"},
		"foreign-program.yaml": {
			"at broker1:9092", "PLAINTEXT  9092", "200\n", "10.1.0.1 - - [", `"GET / HTTP/1.1" 200`,
		},
		"four-protocols.yaml": {
			"at broker1:29092", "at broker1:29093", "at broker1:29094", "at broker1:29095", "User:alice",
		},
		"kafka.yaml":        {"kafka kafka1 at 198.18.0.2", "hello\n", "broker 1 at broker1:9092", "node kafka1: counted in the kernel"},
		"many-subnets.yaml": {"200 subnets with 400 prefixes", "10.8.0.1", "10.8.199.1"},
		"nat.yaml":          {"203.0.113.7", "198.51.100.1"},
		"one-broker.yaml":   {"hello\n"},
		"quickstart.yaml":   {"at broker1:9092", "at 127.0.0.1:29195"},
		"rolling-upgrade.yaml": {
			"CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher.", "metadata.version was upgraded to 33.", "hello\n",
		},
		"in-front-of-kafka.yaml": {
			"through a face\n", "without kafka2\n", "broker 2 at broker2:9095", "broker 3 at broker3:9095", "live",
		},
		"three-brokers.yaml": {
			"hello\n", "live", "Node broker2 of lab three-brokers: killed", "(principal=User:bob, host=*, operation=READ, permissionType=ALLOW)", "broker2:9095",
		},
		"whole-ten.yaml": {"10.0.0.1"},
	}
}

// The head of each example has the commands to try it with, up to taking it down: they are run as they stand there.
func TestTheCommandsOfTheExamplesWork(t *testing.T) { //nolint:tparallel // beside each other, not beside guides that build the same labs
	needRoot(t)
	needKcat(t)
	files, err := filepath.Glob("../examples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(path(t), filepath.Join(bin, "brokerlab")); err != nil {
		t.Fatal(err)
	}
	command := regexp.MustCompile(`(?m)^# {3}(.*)$`)
	var seen []string
	for _, file := range files {
		name := filepath.Base(file)
		seen = append(seen, name)
		t.Run(name, func(t *testing.T) {
			t.Parallel() // no two share the name of a lab or a port of this machine; most of their time is waiting
			want := examples()[name]
			if len(want) == 0 {
				t.Fatal("nobody says what its commands print")
			}
			text := read(t, file)
			if strings.Contains(text, "python3") {
				needPython(t)
			}
			for _, version := range kafkaVersions(text) {
				needKafka(t, version)
			}
			t.Cleanup(func() { brokerlab(t, "lab", "down", file) }) // where a command fails
			script := &strings.Builder{}
			for _, m := range command.FindAllStringSubmatch(text, -1) {
				script.WriteString(m[1] + "\n")
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // Java is slow on a machine that does much else
			defer cancel()
			shell := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script.String())
			shell.Dir = ".."
			shell.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
			out, err := shell.CombinedOutput()
			if err != nil {
				t.Fatalf("%v; the last of it:\n%s", err, kit.Last(string(out), kit.Told))
			}
			for _, w := range want {
				if !strings.Contains(string(out), w) {
					t.Errorf("its commands do not print %q:\n%s", w, out)
				}
			}
			for _, left := range []string{"", ".lock"} {
				if _, err := os.Lstat("/run/brokerlab/" + strings.TrimSuffix(name, ".yaml") + left); err == nil {
					t.Errorf("after down the lab's folder or lock %q is left", left)
				}
			}
		})
	}
	for name := range examples() {
		if !slices.Contains(seen, name) {
			t.Errorf("examples/%s is gone", name)
		}
	}
}

// needPython skips t where there is no python3, the foreign program of some examples.
func needPython(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
}

// kafkaVersions are the versions of Apache Kafka that an example or a guide names.
func kafkaVersions(text string) []string {
	var all []string
	for _, m := range regexp.MustCompile(`(?:version: |--version |kafka path )(\d+\.\d+\.\d+)`).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// needKafka skips t where a version of Apache Kafka, or the Java that runs it, is not on this machine.
func needKafka(t *testing.T, version string) {
	t.Helper()
	if r := brokerlab(t, "kafka", "path", version); r.code != 0 {
		t.Skip(strings.TrimSpace(r.stderr))
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Skip("java is not installed")
	}
}
