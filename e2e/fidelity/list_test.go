package fidelity

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// listOf is a list of these lines.
func listOf(t *testing.T, lines ...string) *list {
	t.Helper()
	name := filepath.Join(t.TempDir(), "differences.txt")
	if err := os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return readList(name)
}

func TestEachFieldThatDiffersIsNamed(t *testing.T) {
	ours := map[string]any{"Code": 0, "same": []int{1, 2}, "Topics": []any{map[string]any{"Name": "a"}, map[string]any{"Name": "b"}}, "10.0.0.0/8": true, "null": nil}
	kafka := map[string]any{"Code": 42, "same": []int{1, 2}, "Topics": []any{map[string]any{"Name": "a", "More": 1}}, "10.0.0.0/8": "true", "null": 0}
	want := []difference{
		{`["10.0.0.0/8"]`, "true", `"true"`},
		{"Code", "0", "42"},
		{"Topics[0].More", "nothing", "1"},
		{"Topics[1]", `{"Name":"b"}`, "nothing"},
		{"null", "null", "0"},
	}
	if got := listOf(t).unlisted("x", ours, kafka); !reflect.DeepEqual(got, want) {
		t.Errorf("differences = %v, want %v", got, want)
	}
}

func TestADifferenceHasToBeListedAsLongAsItIsThere(t *testing.T) {
	l := listOf(t, "# words", "", "acl/* | Code | why", "acl/one | Text | \"a\" | null | why", "acl/one | Gone | why", "acl/none | * | why")
	got := l.unlisted("acl/one", map[string]any{"Code": 1, "Text": "a", "Gone": 1}, map[string]any{"Code": 2, "Text": nil, "Gone": 1})
	if len(got) > 0 {
		t.Errorf("unlisted = %v, want none", got)
	}
	if got := l.unlisted("acl/two", map[string]any{"Text": "a"}, map[string]any{"Text": nil}); len(got) != 1 {
		t.Errorf("unlisted = %v, want Text, which is listed for another case", got)
	}
	if got := l.unlisted("acl/one", map[string]any{"Text": "a"}, map[string]any{"Text": "b"}); len(got) != 1 {
		t.Errorf("unlisted = %v, want Text, which is listed with other values", got)
	}
	gone := strings.Join(l.gone(true), "\n")
	if !strings.Contains(gone, "acl/one | Gone does not differ any more") || !strings.Contains(gone, "acl/none | * is no case's") || strings.Count(gone, "\n") != 1 {
		t.Errorf("gone = %q, want the third line and the fourth", gone)
	}
	if part := l.gone(false); len(part) != 1 {
		t.Errorf("gone after a part = %q, want the third line: its case has run", part)
	}
	l.incomplete.Store(true)
	if skipped := l.gone(true); len(skipped) > 0 {
		t.Errorf("gone = %q, want nothing: cases were skipped", skipped)
	}
	if problems := listOf(t, "acl/one | Code").problems; len(problems) != 1 {
		t.Errorf("problems = %q, want the line without a reason", problems)
	}
}
