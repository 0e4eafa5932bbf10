package fidelity

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	fidelityPage    = "../../docs/fidelity.md"
	pageDifferences = "../../docs/differences.md"
	listBegins      = "<!-- differences -->\n"
	listEnds        = "<!-- end of differences -->\n"
)

var update = flag.Bool("update", false, "print docs/fidelity.md anew")

// quoted is how a reason begins: with words of the page of differences.
var quoted = regexp.MustCompile(`^"([^"]+)"`)

func TestThePageListsWhatDiffers(t *testing.T) {
	text, err := os.ReadFile(fidelityPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), listBegins)
	is, after, ends := strings.Cut(rest, listEnds)
	if !begins || !ends {
		t.Fatalf("%s has no place for the list", fidelityPage)
	}
	want := listed(theList.lines)
	if *update {
		if err := os.WriteFile(fidelityPage, []byte(before+listBegins+want+listEnds+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if is != want {
		t.Errorf("%s is not what differences.txt says: go test ./e2e/fidelity -run Page -update", fidelityPage)
	}
}

// listed is the table of differences: a row for each reason, with the cases it is the reason of.
func listed(lines []*allowed) string {
	cases := map[string][]string{}
	var reasons []string
	for _, line := range lines {
		if cases[line.why] == nil {
			reasons = append(reasons, line.why)
		}
		if name := "`" + line.pattern + "`"; !slices.Contains(cases[line.why], name) {
			cases[line.why] = append(cases[line.why], name)
		}
	}
	var b strings.Builder
	b.WriteString("\n| what differs, and why | in cases |\n|---|---|\n")
	for _, reason := range reasons {
		fmt.Fprintf(&b, "| %s | %s |\n", strings.ReplaceAll(reason, "|", `\|`), strings.Join(cases[reason], ", "))
	}
	b.WriteString("\n")
	return b.String()
}

func TestEachReasonIsAnEntryOfThePageOfDifferences(t *testing.T) {
	b, err := os.ReadFile(pageDifferences)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(b)), " ")
	for _, problem := range theList.problems {
		t.Error(problem)
	}
	for _, line := range theList.lines {
		words := quoted.FindStringSubmatch(line.why)
		if len(words) == 0 || !strings.Contains(text, words[1]) {
			t.Errorf("differences.txt:%d: the reason %q does not begin with words of %s in quotes", line.number, line.why, pageDifferences)
		}
	}
}
