package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// reproduced writes the lab file that examples/acls comes to, under a name of this test's own.
func reproduced(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".yaml")
	mustRun(t, "", path(t), "lab", "init", "--from-acls", "../examples/acls/acls.txt", "--properties", "../examples/acls/server.properties", "-o", file)
	return file
}

// checked is what brokerlab check --format json prints.
type checked struct {
	Results []struct {
		Principal, From, Resource, Operation, Expected, Seen, Rule, Outcome, Why, Request string
		Line                                                                              int
	}
	Totals map[string]int
}

func TestCheckAsksForEveryDecisionOfALabAndLeavesNothing(t *testing.T) {
	needRoot(t)
	file, folder := reproduced(t, "check-right"), t.TempDir()
	t.Cleanup(func() { brokerlab(t, "lab", "down", "check-right") }) // where a command fails
	r := brokerlab(t, "check", file, "--format", "json", "--report-dir", folder)
	if r.code != 0 {
		t.Fatalf("check = %d, want 0\n%s%s", r.code, r.stdout, r.stderr)
	}
	var doc checked
	if err := json.Unmarshal([]byte(r.stdout), &doc); err != nil {
		t.Fatal(err)
	}
	cells := len(regexp.MustCompile(`: (allow|deny)\b`).FindAllString(read(t, file), -1))
	if len(doc.Results) != cells || doc.Totals["kept"]+doc.Totals["unproven"] != cells || doc.Totals["kept"] < cells*9/10 {
		t.Errorf("results = %d, %v, want %d, nearly all kept", len(doc.Results), doc.Totals, cells)
	}
	requests := map[string]bool{}
	for _, one := range doc.Results {
		requests[one.Request] = true
		if one.Outcome == "unproven" && one.Why == "" || one.Outcome == "kept" && (one.Seen != one.Expected || one.Rule == "") {
			t.Errorf("result = %+v", one)
		}
	}
	for _, want := range []string{"Fetch", "Produce", "Metadata", "CreateTopics", "DeleteRecords", "CreatePartitions", "JoinGroup", "DescribeGroups", "InitProducerId", "DescribeAcls", "CreateAcls"} {
		if !requests[want] {
			t.Errorf("requests = %v, want also %s", requests, want)
		}
	}
	for name, want := range map[string]string{"report.html": "User:billing", "junit.xml": "READ on Topic:orders from 10.20.30.1", "report.json": `"suite": "User:billing"`} {
		if text := read(t, filepath.Join(folder, name)); !strings.Contains(text, want) {
			t.Errorf("%s has no %q", name, want)
		}
	}
	if _, err := os.Lstat("/run/brokerlab/check-right"); err == nil {
		t.Error("the lab is left")
	}
}

func TestCheckFindsAWrongExpectationAndSaysWhichRuleDecides(t *testing.T) {
	needRoot(t)
	file := reproduced(t, "check-wrong")
	t.Cleanup(func() { brokerlab(t, "lab", "down", "check-wrong") })
	text, line := read(t, file), 0
	lines := strings.Split(text, "\n")
	for i := range lines {
		if strings.Contains(lines[i], `"User:billing", from: 10.20.30.1, resource: "Topic:orders"`) {
			lines[i], line = strings.Replace(lines[i], "READ: allow 3", "READ: deny", 1), i+1
		}
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	r := brokerlab(t, "check", file, "--report-dir", folder)
	if r.code != 1 || line == 0 {
		t.Fatalf("check = %d, want 1\n%s%s", r.code, r.stdout, r.stderr)
	}
	for _, want := range []string{
		"✗ Topic:orders", "check-wrong.yaml:" + strconv.Itoa(line) + ": User:billing READ on Topic:orders from 10.20.30.1\n  expected deny, seen allow",
		"decided by 3: ALLOW User:billing READ on Topic:orders from 10.20.30.0/24", "1 NOT as expected",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("check prints no %q:\n%s", want, r.stdout)
		}
	}
	if junit := read(t, filepath.Join(folder, "junit.xml")); !strings.Contains(junit, `failures="1"`) {
		t.Errorf("junit.xml has no one failure:\n%.600s", junit)
	}
	if _, err := os.Lstat("/run/brokerlab/check-wrong"); err == nil {
		t.Error("the lab is left")
	}
}

func TestCheckAndInitRefuseWrongInputAndSayAllThatIsWrong(t *testing.T) {
	dir := t.TempDir()
	bad := writeFile(t, dir, "bad.yaml", "name: x\nnodes: {b: {kind: broker}}\nsubnets: {s: {cidr: 10.1.0.0/24}}\nexpect:\n- {principal: alice, from: 10.9.0.1, resource: 'Topic:t', operations: {REED: allow}}\n")
	r := brokerlab(t, "check", bad)
	for _, want := range []string{"bad.yaml:5:4: principal", "bad.yaml:5:22: 10.9.0.1 is in no subnet", "REED"} {
		if r.code != 2 || !strings.Contains(r.stderr, want) {
			t.Errorf("check = %d, %s, want 2 and %q", r.code, r.stderr, want)
		}
	}
	nobody := writeFile(t, dir, "nobody.yaml", "name: x\nnodes: {b: {kind: broker}}\nsubnets: {s: {cidr: 10.1.0.0/24}}\nexpect:\n- {principal: 'User:carol', from: 10.1.0.1, resource: 'Topic:t', operations: {READ: allow}}\n")
	if r = brokerlab(t, "check", nobody); r.code != 2 || !strings.Contains(r.stderr, "line 5: no user of the lab is User:carol") {
		t.Errorf("check = %d, %s, want 2 and who cannot log in", r.code, r.stderr)
	}
	empty := writeFile(t, dir, "empty.txt", "")
	if r = brokerlab(t, "lab", "init", "--from-acls", empty, "--properties", "../examples/acls/server.properties"); r.code != 2 {
		t.Errorf("lab init of no rules = %d, want 2", r.code)
	}
	file := reproduced(t, "there")
	r = brokerlab(t, "lab", "init", "--from-acls", "../examples/acls/acls.txt", "--properties", "../examples/acls/server.properties", "-o", file)
	if r.code != 2 || !strings.Contains(r.stderr, "is there already: --force replaces it") {
		t.Errorf("lab init over a file = %d, %s, want 2", r.code, r.stderr)
	}
	if r = brokerlab(t, "lab", "validate", file); r.code != 0 {
		t.Errorf("lab validate = %d, %s, want 0", r.code, r.stderr)
	}
}
