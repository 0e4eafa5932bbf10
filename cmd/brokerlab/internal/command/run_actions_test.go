package command

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// The example for CI is copied, not run: its commands must at least be ours.
func TestTheCommandsOfTheActionsExampleAreOurs(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/github-actions.yml")
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Jobs map[string]struct {
			Steps []struct {
				Run string `yaml:"run"`
			} `yaml:"steps"`
		} `yaml:"jobs"`
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, step := range workflow.Jobs["suites"].Steps {
		_, line, ours := strings.Cut(step.Run, "sudo bin/brokerlab ")
		if !ours {
			continue
		}
		n++
		line, _, _ = strings.Cut(line, " ||")
		args := strings.Fields(regexp.MustCompile(`\$\{\{[^}]*\}\}`).ReplaceAllString(line, "1"))
		if got := run(t, append(append([]string{"brokerlab"}, args...), "--help")...); got.code != 0 {
			t.Errorf("brokerlab %s --help = exit %d %s, want 0", line, got.code, got.errout)
		}
		if args[0] == "run" { // the flags are checked, and nothing runs
			if got := run(t, append(append([]string{"brokerlab"}, args...), "--list")...); got.code != 0 {
				t.Errorf("brokerlab %s --list = exit %d %s, want 0", line, got.code, got.errout)
			}
		}
	}
	if n != 2 {
		t.Errorf("the example has %d commands of ours, want 2", n)
	}
}
