package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheQuickstartLabComesUpAndLeavesNothing(t *testing.T) {
	needRoot(t)
	lab := "../examples/quickstart.yaml"
	mustRun(t, "", path(t), "lab", "validate", lab)
	t.Cleanup(func() { brokerlab(t, "lab", "down", lab) })
	mustRun(t, "", path(t), "lab", "up", lab)
	mustRun(t, "", path(t), "lab", "up", lab) // again changes nothing
	if out := mustRun(t, "", path(t), "lab", "inspect", lab, "--format", "json"); !json.Valid([]byte(out)) {
		t.Errorf("inspect --format json is not JSON:\n%s", out)
	}
	mustRun(t, "", path(t), "lab", "down", lab)
	if left, err := filepath.Glob("/run/brokerlab/quickstart*"); err != nil || len(left) > 0 {
		t.Errorf("after down: %v, %v; want nothing left", left, err)
	}
	if mounts := read(t, "/proc/mounts"); strings.Contains(mounts, "brokerlab/quickstart") {
		t.Errorf("after down, mounts are left:\n%s", mounts)
	}
}

func TestEveryExampleLabIsValid(t *testing.T) {
	files, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("examples = %v, %v", files, err)
	}
	for _, f := range files {
		mustRun(t, "", path(t), "lab", "validate", f)
	}
}

func TestALabFileWithMistakesNamesEachWithItsPlace(t *testing.T) {
	f := writeFile(t, t.TempDir(), "bad.yaml", "name: bad\nnodes:\n  b:\n    kind: brokr\nsubnets:\n  office:\n    cidr: 10.1.0.5/24\n")
	r := brokerlab(t, "lab", "validate", f)
	if r.code == 0 {
		t.Fatal("a bad lab file is valid")
	}
	for _, want := range []string{"bad.yaml:4", "brokr", "bad.yaml:7", "10.1.0.5/24", "10.1.0.0/24"} {
		if !strings.Contains(r.stderr+r.stdout, want) {
			t.Errorf("lacks %q:\n%s%s", want, r.stdout, r.stderr)
		}
	}
	if _, err := os.Stat("/run/brokerlab/bad"); err == nil {
		t.Error("validate left /run/brokerlab/bad")
	}
}
