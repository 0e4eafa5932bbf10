//go:build linux

package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestABenchThatCannotBeMeantSaysWhy(t *testing.T) {
	saved := filepath.Join(t.TempDir(), "saved.json")
	if err := os.WriteFile(saved, []byte(`{"schema":"brokerlab/bench-connections/v0"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	bench := []string{"bench", "connections"}
	size := []string{"limits", "size", "--memory", "1GiB"}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{bench, 2, "what to measure"},
		{append(slices.Clone(bench), "--bootstrap-server", "127.0.0.1:1", "--lab", "x"), 2, "choose one"},
		{append(slices.Clone(bench), "--bootstrap-server", "127.0.0.1:1", "--steps", "5,3"), 2, "more than the one before"},
		{append(slices.Clone(bench), "--bootstrap-server", "127.0.0.1:1", "--node", "x"), 2, "--node needs --lab"},
		{append(slices.Clone(bench), "--bootstrap-server", "127.0.0.1:1", "--source", "x"), 1, "connect to 127.0.0.1:1"},
		{append(slices.Clone(bench), "--bootstrap-server", "127.0.0.1:1", "--pid", "1,2"), 2, "2 processes for 1 servers"},
		{
			append(slices.Clone(bench), "--bootstrap-server", "192.0.2.1:9092,127.0.0.1:1", "--max", "70"), 2,
			"192.0.2.1:9092 (192.0.2.1:9092) is outside of labs and of this machine's loopback, and would get up to 70 connections: give --yes",
		},
		{append(slices.Clone(bench), "--compare", filepath.Join(t.TempDir(), "nosuch")), 1, "read a result"},
		{append(slices.Clone(bench), "--bootstrap-server", "127.0.0.1:1", "--config", "a=b"), 2, "--config is for --target"},
		{append(slices.Clone(bench), "--target", "redpanda"), 2, "want broker, kafka or kafka:VERSION"},
		{append(slices.Clone(bench), "--target", "broker", "--target", "broker"), 2, "there twice"},
		{append(slices.Clone(bench), "--target", "broker", "--lab", "x"), 2, "a lab of its own"},
		{append(slices.Clone(bench), "--target", "kafka:4.99.99"), 1, "kafka fetch 4.99.99"},
		{append(slices.Clone(bench), "--compare", saved), 1, "its schema is"},
		{[]string{"limits", "size", "--memory", "much"}, 2, `"much" is no size`},
		{size, 2, "whose connections"},
		{append(slices.Clone(size), "--bootstrap-server", "127.0.0.1:1"), 2, "--pid"},
		{append(slices.Clone(size), "--bootstrap-server", "127.0.0.1:1", "--pid", "1", "--reserve", "1"), 2, "--reserve"},
	} {
		got := run(t, append([]string{"brokerlab"}, c.args...)...)
		if got.code != c.code || got.out != "" || !strings.Contains(got.errout, c.want) {
			t.Errorf("brokerlab %v = exit %d %q %q, want %d and %q", c.args, got.code, got.out, got.errout, c.code, c.want)
		}
	}
}

func TestStepsArePowersOfTenUnlessTheyAreGiven(t *testing.T) {
	for _, c := range []struct {
		steps []int
		most  int
		want  []int
	}{
		{nil, 0, []int{100, 1000, 10000}},
		{nil, 50, []int{50}},
		{nil, 20000, []int{100, 1000, 10000, 20000}},
		{[]int{5, 50}, 0, []int{5, 50}},
		{[]int{5, 50, 500}, 50, []int{5, 50}},
		{[]int{5}, 7, []int{5, 7}},
	} {
		o := benchOptions{steps: c.steps, most: c.most}
		if got, err := o.ramp(); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("ramp() of %v up to %d = %v, %v, want %v", c.steps, c.most, got, err, c.want)
		}
	}
	for _, wrong := range [][]int{{0, 5}, {-1}, {5, 3}} {
		if got, err := (&benchOptions{steps: wrong}).ramp(); err == nil {
			t.Errorf("ramp() of %v = %v, want an error", wrong, got)
		}
	}
}
