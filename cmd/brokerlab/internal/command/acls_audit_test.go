package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestToolsForACLsExitAsTheySayAndFitATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string, hosts ...string) string {
		var b strings.Builder
		for _, host := range hosts {
			b.WriteString(`{"resourceType":"TOPIC","name":"a\u001b[31m` + strings.Repeat("long-", 40) + `","patternType":"LITERAL","principal":"User:a","host":"` + host + `","operation":"READ","permissionType":"ALLOW"}` + "\n")
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	hosts := write("hosts.jsonl", "10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3")
	folded := write("folded.jsonl", "10.0.0.0/30")
	wider := write("wider.jsonl", "10.0.0.0/29")
	for _, test := range []struct {
		line string
		code int
		want string
	}{
		{"diff " + hosts + " " + folded, 0, "Every decision is the same."},
		{"diff " + hosts + " " + wider, 1, "10.0.0.4/30"},
		{"diff " + hosts + " " + wider + " --format json", 1, `"witness": "10.0.0.4"`},
		{"diff " + hosts, 2, ""},
		{"diff " + hosts + " " + dir + "/none", 2, ""},
		{"lint --acls " + hosts, 1, "10.0.0.0/30"},
		{"lint --acls " + hosts, 1, "1: ALLOW User:a"},
		{"lint --acls " + folded + " --acls " + hosts, 1, "hosts.jsonl:1: ALLOW User:a"},
		{"lint --acls " + folded + " --acls " + hosts + " --format json", 1, `hosts.jsonl",`},
		{"lint --acls " + folded, 0, "Findings: 0 in 1 rules."},
		{"lint --acls " + folded + " --dual-stack --format json", 1, `"code": "one-family"`},
		{"fold --acls " + hosts + " --to jsonl", 0, `"host":"10.0.0.0/30"`},
		{"fold --acls " + hosts + " --format json", 0, `"boundaryAddresses":`},
		{"fold --acls " + hosts + " --to kafka-acls", 2, ""}, // it cannot keep the name
		{"expand --acls " + folded + " --to jsonl", 0, `"host":"10.0.0.3"`},
		{"expand --acls " + folded + " --to jsonl --limit 3", 2, ""},
		{"matrix --acls " + folded, 0, "READ, DESCRIBE"},
		{"matrix --acls " + folded + " --html", 0, "<td>READ DESCRIBE </td>"},
		{"matrix --acls " + folded + " --topic t --group g", 2, ""},
	} {
		got := run(t, append([]string{"brokerlab", "acls"}, strings.Fields(test.line)...)...)
		if got.code != test.code || !strings.Contains(got.out, test.want) {
			t.Errorf("acls %s = %d %q %q, want %d and %q", test.line, got.code, got.out, got.errout, test.code, test.want)
		}
		if strings.Contains(got.out, "\x1b") {
			t.Errorf("acls %s prints an escape character", test.line)
		}
		if strings.Contains(test.line, "json") || strings.Contains(test.line, "html") || strings.Contains(test.line, "--to") {
			continue
		}
		for line := range strings.Lines(got.out) {
			if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > helpWidth {
				t.Errorf("acls %s prints a line of more than %d columns: %s", test.line, helpWidth, line)
			}
		}
	}
}

// Names that nest as deep as they can make a matrix the work of minutes, which its user must be able to give up.
func TestAMatrixCanBeGivenUp(t *testing.T) {
	t.Parallel()
	var rules strings.Builder
	for i := range 5_000 {
		fmt.Fprintf(&rules, `{"resourceType":"TOPIC","name":"%s","patternType":"PREFIXED","principal":"User:u%d","host":"10.0.%d.0/24","operation":"READ","permissionType":"ALLOW"}`+"\n",
			strings.Repeat("a", i%249+1), i%50, i%256)
	}
	path := filepath.Join(t.TempDir(), "rules.jsonl")
	if err := os.WriteFile(path, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if code := Run(ctx, []string{"brokerlab", "acls", "matrix", "--acls", path}, Env{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard}); code == 0 {
		t.Error("a matrix that was given up ends with 0")
	}
}
