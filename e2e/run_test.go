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

// A promise is worth something if Kafka, where it has the feature, keeps it too: a few of each suite.
func TestApacheKafkaKeepsThePromisesThatItCan(t *testing.T) {
	needRoot(t)
	needKafka(t, "4.4.0")
	folder := t.TempDir()
	p := finish(t, "run", "--target", "kafka", "--label-filter", "kafka || configpush", "--scale", "0.1", "--report-dir", folder)
	said := strings.Join(strings.Fields(p.log.String()), " ")
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("run --target kafka = exit %d, want 0\n%s", code, p.said())
	}
	text, err := os.ReadFile(filepath.Join(folder, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Target string
		Specs  []struct{ Suite, Name, State, Message, Lacks string }
	}
	if err = json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	if report.Target != "Apache Kafka 4.4.0" {
		t.Errorf("the report is of %q", report.Target)
	}
	kept, skipped := map[string]int{}, 0
	for _, s := range report.Specs {
		switch {
		case s.State == "passed":
			kept[s.Suite]++
		case s.Suite != "configpush" || s.Lacks != "target" || !strings.HasPrefix(s.Message, "Apache Kafka 4.4.0 has no request by which clients push"):
			t.Errorf("%s of suite %s was %s: %s (%s)", s.Name, s.Suite, s.State, s.Message, s.Lacks)
		default:
			skipped++
			if !strings.Contains(said, "skipped: "+s.Message) {
				t.Errorf("no line says why %s was skipped:\n%s", s.Name, said)
			}
		}
	}
	if kept["limits"] == 0 || kept["acl"] == 0 || kept["accounting"] == 0 || skipped == 0 {
		t.Errorf("kept %v, skipped %d: want some of each", kept, skipped)
	}
	junit, err := os.ReadFile(filepath.Join(folder, "junit.xml"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(junit), "clients push their configurations (KIP-1324)") {
		t.Error("junit.xml does not say why a promise was skipped")
	}
}
