package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/brokerlab/brokerlab/internal/testenv"
	"github.com/brokerlab/brokerlab/netlab"
)

// The test binary is brokerlab itself where a lab starts it as its owner or as a broker.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"lab", "broker", "connections"}, os.Args[1]) {
		os.Exit(Run(context.Background(), os.Args, Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}))
	}
	os.Exit(m.Run())
}

// commandLine runs a command line and gives its exit status and what it printed.
func commandLine(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = Run(t.Context(), append([]string{"brokerlab"}, args...), Env{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &err})
	return code, out.String(), err.String()
}

// labFile writes a lab file of one broker under a name of its own.
func labFile(t *testing.T, text string) (path, name string) {
	t.Helper()
	name = fmt.Sprintf("cmd%d-%d", os.Getpid(), time.Now().UnixNano()%1e9)
	path = filepath.Join(t.TempDir(), "lab.yaml")
	if err := os.WriteFile(path, []byte("name: "+name+"\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		return path, name
	}
	t.Cleanup(func() {
		if err := netlab.Down(context.WithoutCancel(t.Context()), name, netlab.Options{}); err != nil && !errors.Is(err, netlab.ErrNoLab) {
			t.Errorf("Down = %v, want nil", err)
		}
		if leaks, err := netlab.Leaks(name, netlab.Options{}); err != nil || len(leaks) > 0 {
			t.Errorf("Leaks = %v, %v, want none", leaks, err)
		}
	})
	return path, name
}

const oneBroker = `
nodes: {broker1: {kind: broker}}
subnets: {four: {cidr: 10.1.0.0/24}, six: {cidr: "fd00:1::/64"}}
`

func TestALabsBrokerServesAllProtocolsToBothFamilies(t *testing.T) {
	testenv.NeedRoot(t)
	file, name := labFile(t, oneBroker)
	code, out, errs := commandLine(t, "", "lab", "up", file)
	if code != 0 || !strings.Contains(out, "broker1:9095") {
		t.Fatalf("lab up = %d, %s%s", code, out, errs)
	}
	lab, err := netlab.Open(name, netlab.Options{})
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for listener, port := range map[string]string{"PLAINTEXT": "9092", "SSL": "9093", "SASL_PLAINTEXT": "9094", "SASL_SSL": "9095"} {
		for subnet, source := range map[string]string{"four": "10.1.0.1", "six": "fd00:1:0:0:0:0:0:1"} {
			user := "User:alice"
			if listener == "PLAINTEXT" {
				user = "User:ANONYMOUS"
			}
			code, out, errs := commandLine(t, "", "lab", "exec", name, subnet, "--", self, "connections", "list",
				"--bootstrap-server", "broker1:"+port, "--command-config", lab.Properties(listener, "alice"))
			if code != 0 || !strings.Contains(out, user) || !strings.Contains(out, source) || !strings.Contains(out, listener) {
				t.Errorf("list over %s from %s = %d, want %s from %s:\n%s%s", listener, subnet, code, user, source, out, errs)
			}
		}
	}
	for _, listener := range []string{"SSL", "SASL_SSL"} {
		code, out, errs := commandLine(t, "", "lab", "exec", name, "four", "--", self, "connections", "list",
			"--bootstrap-server", "broker1:"+map[string]string{"SSL": "9093", "SASL_SSL": "9095"}[listener],
			"--command-config", lab.PKCS12Properties(listener, "alice"))
		if code != 0 || !strings.Contains(out, "User:alice") {
			t.Errorf("list over %s with PKCS12 stores = %d, want User:alice:\n%s%s", listener, code, out, errs)
		}
	}
	st, err := lab.Inspect(t.Context())
	if err != nil || !strings.HasPrefix(st.Kernel, "full") && !strings.HasPrefix(st.Kernel, "sock_diag") {
		t.Errorf("kernel = %q, %v, want full or sock_diag", st.Kernel, err)
	}
}

func TestLabCommandsTellWhatTheyDid(t *testing.T) {
	testenv.NeedRoot(t)
	file, name := labFile(t, oneBroker)
	for _, step := range []struct {
		args   []string
		stdin  string
		code   int
		stdout string // a part of it
		stderr string // a part of it
	}{
		{args: []string{"validate", file}, stdout: "1 node, 2 subnets"},
		{args: []string{"inspect", file}, code: 1, stderr: "no such lab"},
		{args: []string{"exec", name, "four", "--", "true"}, code: 126, stderr: "no such lab"},
		{args: []string{"up", file}, stdout: "Lab " + name + " is up: 1 node, 2 subnets with 2 prefixes."},
		{args: []string{"up", "--format", "json", file}, stdout: `"state": "up"`},
		{args: []string{"inspect", name}, stdout: "SASL_SSL"},
		{args: []string{"inspect", "--wide", name}, stdout: "sasl_ssl/bob.properties"},
		{args: []string{"inspect", "--all"}, stdout: name},
		{args: []string{"list"}, stdout: name},
		{args: []string{"list", "--format", "json"}, stdout: `"folder": "/run/brokerlab/` + name + `"`},
		{args: []string{"exec", name, "four", "--", "sh", "-c", "cat; exit 42"}, stdin: "passed on", code: 42, stdout: "passed on"},
		{args: []string{"exec", file, "broker1", "--", "sh", "-c", "kill -9 $$"}, code: 137},
		{args: []string{"exec", name, "six", "--", "/no/such/program"}, code: 127, stderr: "no such file"},
		{args: []string{"exec", name, "seven", "--", "true"}, code: 126, stderr: `no node or subnet "seven" (there are: broker1, four, six)`},
		{args: []string{"exec", name, "router", "true"}},
		{args: []string{"down"}, code: 2, stderr: "want one lab file or lab name, or --all"},
		{args: []string{"down", "--all", name}, code: 2, stderr: "--all takes no lab"},
		{args: []string{"down", file}, stdout: "Lab " + name + " is gone."},
		{args: []string{"down", name}, stdout: "Lab " + name + " is not there."},
	} {
		code, stdout, stderr := commandLine(t, step.stdin, append([]string{"lab"}, step.args...)...)
		if code != step.code || !strings.Contains(stdout, step.stdout) || !strings.Contains(stderr, step.stderr) {
			t.Errorf("lab %v = %d, want %d, %q and %q:\n%s%s", step.args, code, step.code, step.stdout, step.stderr, stdout, stderr)
		}
		for line := range strings.Lines(stdout) {
			if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > helpWidth && !strings.Contains(line, file) { // the test's folder is long
				t.Errorf("lab %v prints a line of more than %d columns: %s", step.args, helpWidth, line)
			}
		}
	}
}

func TestInspectPrintsOneJSONDocument(t *testing.T) {
	testenv.NeedRoot(t)
	file, name := labFile(t, oneBroker)
	if code, out, errs := commandLine(t, "", "lab", "up", file); code != 0 {
		t.Fatalf("lab up = %d, %s%s", code, out, errs)
	}
	code, out, _ := commandLine(t, "", "lab", "inspect", "--format", "json", name)
	var st netlab.Status
	if err := json.Unmarshal([]byte(out), &st); err != nil || code != 0 {
		t.Fatalf("lab inspect = %d, %v\n%s", code, err, out)
	}
	if st.Name != name || st.State != netlab.LabUp || len(st.Nodes) != 1 || st.Nodes[0].PID == 0 || st.Nodes[0].NetnsCookie == 0 || len(st.Subnets) != 2 {
		t.Errorf("inspect = %+v, want a lab that is up", st)
	}
	for _, l := range st.Nodes[0].Listeners {
		for _, file := range l.Properties {
			if _, err := os.Stat(file); err != nil {
				t.Errorf("properties of %s: %v", l.Name, err)
			}
		}
	}
}

func TestWrongLabFileEndsWithTwo(t *testing.T) {
	file, _ := labFile(t, "nodes: {b: {kind: brokr}}")
	for _, verb := range []string{"validate", "up"} {
		code, _, errs := commandLine(t, "", "lab", verb, file)
		if code != 2 || !strings.Contains(errs, file+`:2:13: unknown kind "brokr": did you mean "broker"?`) {
			t.Errorf("lab %s = %d, %s, want 2 and the place", verb, code, errs)
		}
	}
}
