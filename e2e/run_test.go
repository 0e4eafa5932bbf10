package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A pipeline must be able to tell what was kept from what could not be tried.
func TestARunEndsWithThreeWhereTheKernelLacksWhatPromisesNeed(t *testing.T) {
	needRoot(t)
	folder := t.TempDir()
	t.Setenv("BROKERLAB_KERNEL_OFF", "accounting")
	got := brokerlab(t, "run", "accounting", "--shard", "1/2", "--scale", "0.05", "--report-dir", folder)
	if got.code != 3 || !strings.Contains(got.stderr, "this kernel lacks what they need") {
		t.Fatalf("run without kernel accounting = exit %d %q, want 3\n%s", got.code, got.stderr, got.stdout)
	}
	text, err := os.ReadFile(filepath.Join(folder, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Specs []struct{ State, Message, Lacks string }
	}
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	skipped := 0
	for _, s := range report.Specs {
		if s.State != "skipped" {
			continue
		}
		skipped++
		if s.Lacks != "kernel" || !strings.Contains(s.Message, "forced off") {
			t.Errorf("a skipped promise lacks %q: %q, want the kernel and why", s.Lacks, s.Message)
		}
	}
	if skipped == 0 {
		t.Error("no promise was skipped")
	}
}
