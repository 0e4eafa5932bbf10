package broker

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestPropertiesFilesAreReadAsJavaReadsThem(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/properties.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Text       string
		Properties map[string]string
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, c := range cases {
		path := filepath.Join(dir, "server.properties")
		latin1 := make([]byte, 0, len(c.Text))
		for _, r := range c.Text {
			latin1 = append(latin1, byte(r))
		}
		if err := os.WriteFile(path, latin1, 0o600); err != nil {
			t.Fatal(err)
		}
		l := &loading{settings: map[string]setting{}}
		if err := l.readFile(path); err != nil {
			t.Fatal(err)
		}
		blank := func(k string) bool { return strings.TrimSpace(k) == "" }
		if slices.ContainsFunc(slices.Collect(maps.Keys(c.Properties)), blank) {
			continue // a line without a key is a problem here
		}
		if len(l.problems) > 0 {
			t.Errorf("%q: %v", c.Text, l.problems[0])
			continue
		}
		want := map[string]string{}
		for k, v := range c.Properties {
			want[k] = strings.TrimSpace(v)
		}
		same := len(want) == len(l.settings)
		for k, v := range want {
			same = same && l.settings[k].value == v
		}
		if !same {
			t.Errorf("%q: read %v, want %v", c.Text, l.settings, want)
		}
	}
}
