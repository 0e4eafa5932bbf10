//go:build linux

package command

import (
	"strings"
	"testing"
)

func TestAnEngineThatCannotBeMeantExitsWithTwo(t *testing.T) {
	for want, args := range map[string]string{
		"--nodes 0: use 1 to 1000":                              "--nodes 0",
		`--listen: "9192" is not host:port`:                     "--listen 9192",
		`--listen: "[::1]:http" is not host:port`:               "--listen [::1]:http",
		"--listen 127.0.0.1:65534: the nodes have the 3 ports":  "--listen 127.0.0.1:65534",
		"--listen :9192: brokers cannot connect to every":       "--listen :9192",
		"--metadata 0.0.0.0:1: brokers cannot connect to every": "--metadata 0.0.0.0:1",
		"--listen has the ports 20650 to 20653":                 "--listen 127.0.0.1:20650 --metadata 127.0.0.1:20653",
		`--override "a" is not key=value`:                       "-o a",
	} {
		got := run(t, append([]string{"brokerlab", "engine"}, strings.Fields(args)...)...)
		if got.code != 2 || !strings.Contains(got.errout, want) {
			t.Errorf("engine %s = exit %d %q, want 2 and %q", args, got.code, got.errout, want)
		}
	}
}
