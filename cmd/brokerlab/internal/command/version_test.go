package command

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

func TestVersionTellsWhatAFaultReportNeeds(t *testing.T) {
	got := run(t, "brokerlab", "version", "--format", "json")
	var b build
	if err := json.Unmarshal([]byte(got.out), &b); err != nil || got.code != 0 {
		t.Fatalf("version = exit %d, %v, %s%s", got.code, err, got.out, got.errout)
	}
	if b.Version != softwareVersion || b.Go != runtime.Version() || b.OS != runtime.GOOS || b.Arch != runtime.GOARCH || b.Kernel == "" {
		t.Errorf("version = %+v, want this build and kernel", b)
	}
	got = run(t, "brokerlab", "version")
	for _, want := range []string{"brokerlab " + softwareVersion + "\n", "commit    ", runtime.Version(), b.Kernel} {
		if !strings.Contains(got.out, want) {
			t.Errorf("version prints %q, want %q in it", got.out, want)
		}
	}
	dirty := build{Version: "1", Commit: "abc", Modified: true}
	if got := dirty.commit(); got != "abc, modified" {
		t.Errorf("commit = %q, want abc, modified", got)
	}
}
