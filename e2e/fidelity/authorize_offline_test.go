package fidelity

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	decisionSets = 50  // sets of rules
	decisionsOf  = 410 // questions to each, a few of them twice: 20,000 in all
)

// plainRule is a rule in the words of Kafka, as format jsonl of brokerlab has it.
type plainRule struct {
	ResourceType   string `json:"resourceType"`
	Name           string `json:"name"`
	PatternType    string `json:"patternType"`
	Principal      string `json:"principal"`
	Host           string `json:"host"`
	Operation      string `json:"operation"`
	PermissionType string `json:"permissionType"`
}

// question asks whether somebody may do something.
type question struct{ principal, address, operation, resourceType, name string }

func (q question) String() string {
	return fmt.Sprintf("%s from %s: %s %s %s", q.principal, q.address, q.operation, q.resourceType, q.name)
}

// decisionSet is what one authorizer knows and is asked.
type decisionSet struct {
	superUsers, allowEveryone string
	rules                     []plainRule
	questions                 []question
}

// operationsOf are the operations that each type of resource has a meaning for.
var operationsOf = map[string][]string{
	"TOPIC":            {"READ", "WRITE", "CREATE", "DESCRIBE", "DELETE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"},
	"GROUP":            {"READ", "DESCRIBE", "DELETE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"},
	"CLUSTER":          {"CREATE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "ALTER", "DESCRIBE"},
	"TRANSACTIONAL_ID": {"DESCRIBE", "WRITE", "TWO_PHASE_COMMIT"},
	"DELEGATION_TOKEN": {"DESCRIBE"},
	"USER":             {"CREATE_TOKENS", "DESCRIBE_TOKENS"},
}

// madeUpSet makes rules that overlap, nest and contradict each other, and questions near their edges.
func madeUpSet(r *rand.Rand) decisionSet {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	principal := func() string {
		return pick("User:a", "User:a", "User:a", "User:b", "User:A", "User:c:d", "Group:a", "User:CN=x,O=y", "User:root", "User:b ")
	}
	name := func() string {
		return pick("a", "ab", "abc", "abcd", "abx", "b", "ba", "A", "a.b", "a,b", "hardcode", "*a", "é", "abcdefghijklmnopqrstuvwxyz")
	}
	// Addresses are near each other, so that ranges of all lengths hold some and not others.
	four := func() string {
		return fmt.Sprintf("%d.%d.%d.%d", 10+r.IntN(2), r.IntN(3)*127, r.IntN(3), []int{0, 1, 7, 8, 127, 128, 254, 255}[r.IntN(8)])
	}
	six := func() string {
		return fmt.Sprintf("%s:%x:0:0:0:%x", pick("2001:db8:0", "2001:db8:1", "fe80:0:0", "0:0:0"), r.IntN(3), []int{0, 1, 7, 8, 0xff, 0x100, 0xffff}[r.IntN(7)])
	}
	host := func() string {
		switch r.IntN(12) {
		case 0, 1:
			return "*"
		case 2:
			return four()
		case 3:
			return six()
		case 4:
			return pick("2001:db8::1", "localhost", "10.0.0.0/33", "::ffff:10.0.0.0/104", "10.0.0.0/", "bad/path", "010.000.0.1", "::/0", "0.0.0.0/0",
				"[fe80::1%1]/64", "fe80::%2/10", "::1", "10.0.0.*", "*/0", "::10.0.0.0/104", "010.0.0.0/08", "2001:DB8::/+32")
		case 5, 6, 7, 8:
			return fmt.Sprintf("%s/%d", four(), []int{0, 1, 7, 8, 9, 15, 16, 23, 24, 25, 29, 30, 31, 32}[r.IntN(14)])
		default:
			return fmt.Sprintf("%s/%d", six(), []int{0, 1, 16, 32, 47, 48, 49, 64, 112, 120, 121, 127, 128}[r.IntN(13)])
		}
	}
	types := ordered(operationsOf)
	kind := func() string {
		if r.IntN(2) == 0 {
			return "TOPIC"
		}
		return types[r.IntN(len(types))]
	}
	s := decisionSet{
		superUsers:    pick("", "", "User:root", "User:root;User:CN=x,O=y", " User:root ; ;Group:a", "User:*"),
		allowEveryone: pick("false", "true"),
	}
	for range []int{0, 2, 5, 12, 30, 80, 250}[r.IntN(7)] {
		rule := plainRule{kind(), name(), "LITERAL", principal(), host(), "", "ALLOW"}
		rule.Operation = pick(append(operationsOf[rule.ResourceType], "ALL", "READ", "DESCRIBE", "WRITE", "ALTER_CONFIGS")...)
		switch r.IntN(6) {
		case 0:
			rule.Name = "*"
		case 1, 2:
			rule.PatternType = "PREFIXED"
			rule.Name = rule.Name[:1+r.IntN(len(rule.Name))]
			if !strings.HasPrefix(name(), rule.Name) {
				rule.Name = pick("a", "ab", "abc", "*", "b")
			}
		}
		if rule.ResourceType == "CLUSTER" {
			rule.Name, rule.PatternType = "kafka-cluster", pick("LITERAL", "LITERAL", "LITERAL", "PREFIXED")
		}
		if rule.ResourceType == "USER" && rule.Name != "*" {
			rule.Name = pick("User:a", "User:b", "User:")
		}
		if r.IntN(6) == 0 {
			rule.Principal = pick("User:*", "User:*", "Group:*")
		}
		if r.IntN(5) == 0 {
			rule.PermissionType = "DENY"
		}
		s.rules = append(s.rules, rule)
	}
	for range decisionsOf {
		q := question{principal(), four(), "", kind(), name()}
		if r.IntN(3) == 0 {
			q.address = six()
		}
		switch r.IntN(40) {
		case 0:
			q.address = pick("127.0.0.1", "255.255.255.255", "0:0:0:0:0:0:0:1", "::1", "2001:db8::1")
		case 1:
			q.address = "fe80::1%" + pick("1", "2", "3")
		}
		switch q.resourceType {
		case "CLUSTER":
			q.name = "kafka-cluster"
		case "USER":
			q.name = pick("User:a", "User:b")
		}
		q.operation = pick(operationsOf[q.resourceType]...)
		s.questions = append(s.questions, q)
	}
	return s
}

// decided is an answer: what, and by which rule, as Kafka's authorizer logs it.
type decided struct {
	Allowed bool
	Rule    string
}

// Kafka's own class, without a broker, and the offline command of ours, which goes by the broker's index.
func TestDecisionsAreThoseOfKafkasAuthorizer(t *testing.T) {
	t.Parallel()
	needKafka(t)
	r := rand.New(rand.NewPCG(11, 290))
	sets := make([]decisionSet, decisionSets)
	for i := range sets {
		sets[i] = madeUpSet(r)
	}
	kafka := askKafkasAuthorizer(t, sets)
	ours := map[string]decided{}
	for i := range sets {
		for q, answer := range askOurAuthorizer(t, sets[i]) {
			ours[fmt.Sprintf("%d: %s", i, q)] = answer
		}
	}
	theList.judge(t, "authorize/decisions", ours, kafka)
	t.Logf("%d decisions, %d of them allowed", len(kafka), len(slices.DeleteFunc(ordered(kafka), func(q string) bool { return !kafka[q].Allowed })))
}

// authorizeJava is the command that runs e2e/java/Authorize.java. Kafka's authorizer logs on standard output.
func authorizeJava(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	log4j := filepath.Join(t.TempDir(), "log4j2.properties")
	if err := os.WriteFile(log4j, []byte(`status=off
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%m%n
rootLogger.level=off
logger.authorizer.name=kafka.authorizer.logger
logger.authorizer.level=debug
logger.authorizer.appenderRef.out.ref=out
`), 0o600); err != nil {
		t.Fatal(err)
	}
	all := append(javaOptions(), "-Dfile.encoding=UTF-8", "-Dlog4j2.configurationFile="+log4j, "-cp", filepath.Join(theKafka, "libs", "*"), "../java/Authorize.java")
	return exec.CommandContext(ctx, "java", append(all, args...)...)
}

func askKafkasAuthorizer(t *testing.T, sets []decisionSet) map[string]decided {
	t.Helper()
	var in bytes.Buffer
	for _, s := range sets {
		fmt.Fprintf(&in, "new\t%s\t%s\n", s.superUsers, s.allowEveryone)
		for _, r := range s.rules {
			fmt.Fprintf(&in, "acl\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.ResourceType, r.Name, r.PatternType, r.Principal, r.Host, r.Operation, r.PermissionType)
		}
		for _, q := range s.questions {
			fmt.Fprintf(&in, "ask\t%s\t%s\t%s\t%s\t%s\n", q.principal, q.address, q.operation, q.resourceType, q.name)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := authorizeJava(ctx, t)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = &in, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ask Kafka's authorizer: %v\n%s", err, stderr.Bytes())
	}
	answers := map[string]decided{}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	next := func() string {
		if len(lines) == 0 {
			t.Fatalf("Kafka's authorizer answered too little\n%s", stderr.Bytes())
		}
		line := lines[0]
		lines = lines[1:]
		return line
	}
	for i, s := range sets {
		for _, q := range s.questions {
			_, rule, ok := strings.Cut(next(), " based on rule ")
			if !ok {
				t.Fatal("Kafka's authorizer did not log a decision")
			}
			answers[fmt.Sprintf("%d: %s", i, q)] = decided{next() == "ALLOWED", rule}
		}
	}
	return answers
}

func askOurAuthorizer(t *testing.T, s decisionSet) map[string]decided {
	t.Helper()
	dir := t.TempDir()
	var rules, questions bytes.Buffer
	encoder := json.NewEncoder(&rules)
	for _, r := range s.rules {
		if err := encoder.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	w := csv.NewWriter(&questions)
	if err := w.Write([]string{"principal", "host", "operation", "resourceType", "resourceName"}); err != nil {
		t.Fatal(err)
	}
	for _, q := range s.questions {
		if err := w.Write([]string{q.principal, q.address, q.operation, q.resourceType, q.name}); err != nil {
			t.Fatal(err)
		}
	}
	w.Flush()
	for name, content := range map[string]*bytes.Buffer{"rules.jsonl": &rules, "questions.csv": &questions} {
		if err := os.WriteFile(filepath.Join(dir, name), content.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path, err := theBinary()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{
		"acls", "explain", "--acls", filepath.Join(dir, "rules.jsonl"), "--from", "jsonl", "--batch", filepath.Join(dir, "questions.csv"),
		"--format", "json", "--super-users", s.superUsers,
	}
	if s.allowEveryone == "true" {
		args = append(args, "--allow-everyone")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var all []struct {
		Allowed bool
		Rule    string
	}
	if code := cmd.ProcessState.ExitCode(); code > 1 || json.Unmarshal(out, &all) != nil || len(all) != len(s.questions) {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	answers := map[string]decided{}
	for i, q := range s.questions {
		answers[q.String()] = decided(all[i])
	}
	return answers
}
