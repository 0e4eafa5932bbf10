package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// benched is what these tests read of a saved run.
type benched struct {
	Target  struct{ Product string }
	Steps   []struct{ Connections int }
	Verdict struct{ Kind string }
}

func readBench(t *testing.T, file string) benched {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b benched
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// finish runs the binary under test to its end, for as long as starts of Apache Kafka take on a machine that is busy with other things.
func finish(t *testing.T, args ...string) *process {
	t.Helper()
	p := start(t, args...)
	select {
	case <-p.done:
	case <-time.After(10 * time.Minute):
		t.Fatalf("brokerlab %s has not ended:\n%s", args[0], p.said())
	}
	return p
}

// noLab fails the test if a lab of a bench of this process is there.
func noLab(t *testing.T, pid int) {
	t.Helper()
	for i := 1; i <= 2; i++ {
		folder := fmt.Sprintf("/run/brokerlab/bench-%d-%d", pid, i)
		if _, err := os.Stat(folder); !os.IsNotExist(err) {
			t.Errorf("%s is there (%v), want the lab removed", folder, err)
		}
	}
}

func TestABenchBringsUpWhatItMeasuresAndRemovesIt(t *testing.T) {
	needRoot(t)
	folder := t.TempDir()
	p := finish(t, "bench", "connections", "--target", "broker", "--config", "max.connections=20", "--listener", "SSL", "--steps", "10,50",
		"--timeout", "3s", "--settle", "0", "--save", filepath.Join(folder, "run.json"))
	b := readBench(t, filepath.Join(folder, "run.json"))
	if b.Target.Product != "broker" || b.Verdict.Kind != "limit" || len(b.Steps) == 0 {
		t.Errorf("the bench saved %+v, want a run of the broker that ended at the limit\n%s", b, p.said())
	}
	noLab(t, p.cmd.Process.Pid)
}

func TestABenchLaysKafkaBesideTheBroker(t *testing.T) {
	needRoot(t)
	needKafka(t, "4.4.0")
	folder := t.TempDir()
	p := finish(t, "bench", "connections", "--target", "broker", "--target", "kafka", "--max", "50", "--timeout", "60s", "--settle", "0",
		"--save", filepath.Join(folder, "run.json"), "--report", filepath.Join(folder, "run.html"))
	if code := p.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(p.log.String(), "kafka:4.4.0/broker") {
		t.Fatalf("bench connections of both = exit %d\n%s", code, p.said())
	}
	for name, product := range map[string]string{"run-broker.json": "broker", "run-kafka-4.4.0.json": "kafka:4.4.0"} {
		if b := readBench(t, filepath.Join(folder, name)); b.Target.Product != product || len(b.Steps) != 1 || b.Steps[0].Connections != 50 {
			t.Errorf("%s is %+v, want 50 connections of %s", name, b, product)
		}
	}
	page, err := os.ReadFile(filepath.Join(folder, "run.html"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "kafka:4.4.0/broker") {
		t.Error("the page does not lay the runs side by side")
	}
}

func TestABenchThatIsInterruptedRemovesItsLab(t *testing.T) {
	needRoot(t)
	p := start(t, "bench", "connections", "--target", "broker", "--max", "2000", "--rate", "5", "--warm-up", "0", "--settle", "0")
	kit.Eventually(t, "the bench begins", func() bool { return strings.Contains(p.log.String(), "connecting:") })
	p.stop(t, syscall.SIGINT)
	if code := p.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("an interrupted bench = exit %d, want 1\n%s", code, p.said())
	}
	noLab(t, p.cmd.Process.Pid)
}
