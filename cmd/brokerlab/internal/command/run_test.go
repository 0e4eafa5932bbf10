package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/brokerlab/brokerlab/scenarios/runner"
)

func TestRunListsItsPromisesWithoutRunningThem(t *testing.T) {
	got := run(t, "brokerlab", "run", "--list", "--format", "json", "listing")
	if got.code != 0 {
		t.Fatalf("run --list = exit %d %s, want 0", got.code, got.errout)
	}
	var promises []runner.Promise
	if err := json.Unmarshal([]byte(got.out), &promises); err != nil {
		t.Fatal(err)
	}
	if len(promises) < 10 {
		t.Errorf("run --list listing has %d promises, want at least 10", len(promises))
	}
	for _, p := range promises {
		if p.Suite != "listing" || p.Name == "" {
			t.Errorf("run --list listing has %+v", p)
		}
	}
	if got := run(t, "brokerlab", "run", "--list"); !strings.Contains(got.out, "accounting  ") {
		t.Errorf("run --list = %s, want every suite in it", got.out)
	}
}

func TestRunThatMakesNoSenseExitsWithTwo(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"nosuch"}, `there is no suite "nosuch": use accounting, listing`},
		{[]string{"--label-filter", "(("}, "label filter"},
		{[]string{"--label-filter", "nosuchlabel"}, "no promise matches"},
		{[]string{"--scale", "0"}, "must be above 0"},
		{[]string{"--scale", "NaN"}, "must be above 0"},
	} {
		got := run(t, append([]string{"brokerlab", "run"}, test.args...)...)
		if got.code != 2 || !strings.Contains(got.errout, test.want) {
			t.Errorf("run %v = exit %d %q, want 2 and %q", test.args, got.code, got.errout, test.want)
		}
	}
}
