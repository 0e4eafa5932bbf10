package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/brokerlab/brokerlab/broker/admin/admintest"
)

func runIn(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Run(t.Context(), append([]string{"brokerlab"}, args...), Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs})
	return code, out.String(), errs.String()
}

const examples = "../../../../examples/acls/"

func TestExplainSaysWhatDecidesAndWhyOtherRulesDoNot(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]struct {
		code  int
		texts []string
	}{
		"--principal User:alice --host 10.20.1.1 --operation Write --topic orders":                                                                 {0, []string{"ALLOWED", "applies, and decides", "address outside the range"}},
		"--principal User:alice --host 10.20.99.1 --operation Write --topic orders":                                                                {1, []string{"DENIED", "by DENY User:alice from 10.20.99.0/24", "applies, but a DENY beats it"}},
		"--principal User:alice --host ::ffff:10.20.1.1 --operation Write --topic orders":                                                          {0, []string{"address    10.20.1.1, as Kafka prints it"}},
		"--principal User:bob --host 2001:db8:20::17 --operation read --topic orders":                                                              {1, []string{"DefaultDeny", "2001:db8:20:0:0:0:0:17", "same address, other text: never matches"}},
		"--principal User:Alice --host 10.20.1.1 --operation Write --topic orders":                                                                 {1, []string{"principal differs in case"}},
		"--principal User:nobody --host 10.20.1.1 --operation Alter --cluster":                                                                     {1, []string{"DefaultDeny"}},
		"--principal User:root --super-users User:root --host ::1 --operation Alter --cluster":                                                     {0, []string{"SuperUser"}},
		"--principal User:x --allow-everyone --host ::1 --operation Read --topic none":                                                             {0, []string{"DefaultAllow"}},
		"--principal CN=billing,OU=Services,O=X --properties " + examples + "server.properties --host 10.20.30.1 --operation Read --group billing": {0, []string{"User:billing from 10.20.30.1"}},
		"--principal User:x --host host.example --operation Eat --topic t":                                                                         {2, []string{`host "host.example"`, `unknown operation "Eat"`}},
		"--principal x --host ::1 --operation Read --topic t":                                                                                      {2, []string{"want Type:name, such as User:x"}},
		"--principal User:x --host ::1 --operation Read":                                                                                           {2, []string{"want one resource"}},
		"--principal User:x --host ::1 --operation Read --topic t --cluster":                                                                       {2, []string{"want one resource"}},
		"--principal User:x --host ::1 --operation Write --group g":                                                                                {2, []string{"nobody is ever asked for WRITE on GROUP"}},
		"": {2, []string{"ask one question"}},
	} {
		code, out, errs := runIn(t, append([]string{"acls", "explain", "--acls", examples + "acls.txt"}, strings.Fields(line)...)...)
		for _, text := range want.texts {
			if code != want.code || !strings.Contains(out+errs, text) {
				t.Errorf("explain %s = %d, want %d and %q in\n%s%s", line, code, want.code, text, out, errs)
			}
		}
		for row := range strings.Lines(out) {
			if utf8.RuneCountInString(strings.TrimRight(row, "\n")) > helpWidth {
				t.Errorf("explain %s has a line of more than %d columns: %s", line, helpWidth, row)
			}
		}
	}
}

func TestABatchOfQuestionsIsAnsweredInOrderAndItsProblemsHaveLines(t *testing.T) {
	t.Parallel()
	code, out, errs := runIn(t, "acls", "explain", "--acls", examples+"acls.txt", "--batch", examples+"questions.csv", "--format", "json")
	var answers []jsonExplanation
	if err := json.Unmarshal([]byte(out), &answers); err != nil || code != 1 || len(answers) != 4 {
		t.Fatalf("explain --batch = %d, %d answers, %v, %s", code, len(answers), err, errs)
	}
	for i, want := range []bool{true, false, false, true} {
		if answers[i].Allowed != want {
			t.Errorf("answer %d = %v, want %v", i, answers[i].Allowed, want)
		}
	}
	bad := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(bad, []byte("principal,host,operation,resourceType,resourceName\nx,y,Read,Topic,t\nUser:a,::1,Eat,Topic,t\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs = runIn(t, "acls", "explain", "--acls", examples+"acls.txt", "--batch", bad)
	if code != 2 || !strings.Contains(errs, bad+":2: ") || !strings.Contains(errs, bad+":3: ") {
		t.Errorf("explain --batch of bad rows = %d, %s, want 2 and both lines", code, errs)
	}
}

func TestNothingInRulesSteersATerminal(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "rules.jsonl")
	if err := os.WriteFile(rules, []byte(`{"resourceType":"TOPIC","name":"t","patternType":"LITERAL","principal":"User:\u001b[2J\u009b","host":"*","operation":"READ","permissionType":"ALLOW"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"acls", "explain", "--acls", rules, "--principal", "User:x", "--host", "::1", "--operation", "Read", "--topic", "t"},
		{"acls", "explain", "--acls", rules, "--principal", "User:x", "--host", "::1", "--operation", "Read", "--topic", "t", "--format", "json"},
		{"acls", "export", "--acls", rules, "--to", "jsonl"},
		{"acls", "export", "--acls", rules, "--to", "kafka-acls"},
	} {
		if _, out, errs := runIn(t, args...); strings.ContainsAny(out+errs, "\x1b\u009b") {
			t.Errorf("%v prints a control character: %q", args, out+errs)
		}
	}
}

func TestRulesGoThroughAClusterAndComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	b := admintest.Real(t, []string{"listeners=PLAINTEXT://127.0.0.1:0", "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer", "super.users=User:ANONYMOUS"})
	server := b.Addr("PLAINTEXT").String()
	code, out, errs := runIn(t, "acls", "import", "--bootstrap-server", server, "--acls", examples+"acls.txt")
	if code != 0 || !strings.Contains(out, "14 to create, 0 are there already") {
		t.Fatalf("import without --yes = %d, %s%s", code, out, errs)
	}
	if _, out, _ = runIn(t, "acls", "export", "--bootstrap-server", server, "--to", "jsonl"); out != "" {
		t.Errorf("a preview created %s", out)
	}
	if code, out, errs = runIn(t, "acls", "import", "--bootstrap-server", server, "--acls", examples+"acls.txt", "--yes"); code != 0 || !strings.Contains(out, "14 created") {
		t.Fatalf("import --yes = %d, %s%s", code, out, errs)
	}
	copied := filepath.Join(t.TempDir(), "copy.csv")
	if code, out, errs = runIn(t, "acls", "export", "--bootstrap-server", server, "--output", copied); code != 0 {
		t.Fatalf("export = %d, %s%s", code, out, errs)
	}
	entries, err := readACLFile(Env{}, copied, "")
	if err != nil || len(entries) != 14 {
		t.Errorf("%d rules came back, %v, want 14", len(entries), err)
	}
	if code, out, errs = runIn(t, "acls", "import", "--bootstrap-server", server, "--acls", copied, "--yes"); code != 0 || !strings.Contains(out, "0 created, 14 were there already") {
		t.Errorf("import of an export = %d, %s%s", code, out, errs)
	}
	code, out, errs = runIn(t, "acls", "explain", "--bootstrap-server", server, "--principal", "User:bob", "--host", "10.20.0.17", "--operation", "Describe", "--topic", "orders")
	if code != 0 || !strings.Contains(out, "by ALLOW User:bob from 10.20.0.17: READ") {
		t.Errorf("explain = %d, %s%s", code, out, errs)
	}
}
