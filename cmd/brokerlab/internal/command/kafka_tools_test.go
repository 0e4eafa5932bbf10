package command

import (
	"bytes"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/brokerlab/brokerlab/broker/admin/admintest"
)

// toolRun is one command line of testdata/kafka-tools.golden and what was printed.
type toolRun struct {
	line           string
	stdout, stderr []string
	code           string
}

func readToolRuns(t *testing.T, path string) []toolRun {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []toolRun
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) < 2 {
			continue
		}
		mark, rest := line[:1], strings.TrimPrefix(line[2:], " ")
		if mark == "1" || mark == "2" {
			rest = line[2:]
		}
		switch mark {
		case "$":
			all = append(all, toolRun{line: rest})
		case "1":
			all[len(all)-1].stdout = append(all[len(all)-1].stdout, rest)
		case "2":
			all[len(all)-1].stderr = append(all[len(all)-1].stderr, rest)
		case "=":
			all[len(all)-1].code = rest
		}
	}
	return all
}

// splitShell splits a command line whose only quotes are single ones.
func splitShell(line string) []string {
	var words []string
	for _, w := range regexp.MustCompile(`(?:[^\s']|'[^']*')+`).FindAllString(line, -1) {
		words = append(words, strings.ReplaceAll(w, "'", ""))
	}
	return words
}

// plainLines are the lines that count, in an order of their own where Kafka's is that of a hash.
func plainLines(lines []string) []string {
	var out []string
	operations := regexp.MustCompile(`only supports operations \[(.*)\]`)
	for _, l := range lines {
		if l = strings.TrimSpace(l); l == "" {
			continue
		}
		if m := operations.FindStringSubmatch(l); m != nil {
			names := strings.Split(m[1], ", ")
			slices.Sort(names)
			l = strings.Replace(l, m[1], strings.Join(names, ", "), 1)
		}
		if head, values, ok := strings.Cut(l, " are "); ok && strings.HasPrefix(l, "Quota") {
			parts := strings.Split(values, ", ")
			slices.Sort(parts)
			l = head + " are " + strings.Join(parts, ", ")
		}
		out = append(out, l)
	}
	slices.Sort(out)
	return out
}

// What Kafka's own tools print is what ours print: the same lines, on the same streams, with the same status.
func TestKafkasCommandLinesPrintWhatKafkasToolsPrint(t *testing.T) {
	b := admintest.Real(t, []string{
		"listeners=PLAINTEXT://127.0.0.1:0",
		"log.dirs=" + t.TempDir(),
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users=User:ANONYMOUS",
	})
	server := b.Addr("PLAINTEXT").String()
	if other := os.Getenv("BROKERLAB_TEST_KAFKA"); other != "" {
		server = other // a new Kafka, to see whether the tools agree about it as well
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(server))
	if err != nil {
		t.Fatal(err)
	}
	_, err = kadm.NewClient(cl).CreateTopic(t.Context(), 1, 1, nil, "orders")
	cl.Close()
	if err != nil && os.Getenv("BROKERLAB_TEST_KAFKA") == "" {
		t.Fatal(err)
	}
	for _, want := range readToolRuns(t, "testdata/kafka-tools.golden") {
		want.stdout, want.stderr = plainLines(want.stdout), plainLines(want.stderr)
		got := runTool(t, want.line, server)
		if strings.Contains(want.line, "--describe") && os.Getenv("BROKERLAB_TEST_KAFKA") != "" {
			got = settled(t, want, got, server) // Kafka shows what was altered only once it has taken effect
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(toolRun{})); diff != "" {
			t.Errorf("%s (-Kafka +ours)\n%s", want.line, diff)
		}
	}
}

// settled runs a line again, for a few seconds, until it prints what is wanted.
func settled(t *testing.T, want, got toolRun, server string) toolRun {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(5 * time.Second); !reflect.DeepEqual(want, got) && time.Now().Before(deadline); <-tick.C {
		got = runTool(t, want.line, server)
	}
	return got
}

// runTool runs a line of the file against server.
func runTool(t *testing.T, line, server string) toolRun {
	t.Helper()
	var stdout, stderr bytes.Buffer
	args := splitShell(strings.NewReplacer("BS", server, "BC", "127.0.0.1:1").Replace(line))
	code := Run(t.Context(), args, Env{Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr})
	return toolRun{line, toolLines(stdout.String(), server), toolLines(stderr.String(), server), string(rune('0' + code))}
}

func toolLines(text, server string) []string {
	return plainLines(strings.Split(strings.ReplaceAll(text, server, "BS"), "\n"))
}
