package clients

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// library is a client whose program knows more operations than the contract asks for: manage, member, and codecs.
type library struct {
	client
	static   bool     // whether its members can be static
	protocol []string // of groups
}

func libraries() []library {
	var found []library
	for _, c := range list() {
		l := library{client: c, static: true, protocol: []string{"classic"}}
		switch c.name {
		case "confluent-kafka":
			l.protocol = append(l.protocol, "consumer")
		case "kafkajs":
			l.static = false
		case "aiokafka", "kafka-python":
		default:
			continue
		}
		found = append(found, l)
	}
	return found
}

// program returns the command line of a client, or skips t with the reason why there is none.
func (c client) program(t *testing.T, w *workshop) []string {
	t.Helper()
	if *only != "" && !slices.Contains(strings.Split(*only, ","), c.name) {
		t.Skipf("%s: not asked for", c.name)
	}
	if why := c.leftOut(); why != "" {
		t.Skipf("%s: %s", c.name, why)
	}
	command, err := c.build(w)
	if why, missing := unavailable(err); missing {
		t.Skipf("%s: %s", c.name, why)
	}
	if err != nil {
		t.Fatal(err)
	}
	return command
}

// asAdmin has r come from the operator's user, who may do all.
func (b *broker) asAdmin(op, topic string) request {
	r := b.request(pair{"SASL_PLAINTEXT", "IPv4"}, op, topic)
	r.Mechanism, r.User, r.TimeoutMS = "PLAIN", "admin", 120_000
	return r
}

// Every call that a library's administrator has is answered as Kafka 4.4.0 answered it. With -kafka and -update a run writes down what
// Kafka answers.
func TestAdminCallsOfLibrariesAreAnsweredAsByKafka(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t)
	b := startBroker(t, w)
	if *kafka { // or it has no coordinator of transactions yet
		b.topics("first")
		if got := once(t, libraries()[0].program(t, w), b.asAdmin("transact", "first")); got.Error != "" {
			t.Fatalf("transact = %s", got.raw)
		}
	}
	for _, l := range libraries() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			r := b.asAdmin("manage", "m-"+l.name)
			if r.PauseMS = 0; *kafka {
				r.PauseMS, r.TimeoutMS = 1500, 400_000
			}
			p := start(t, l.program(t, w), r)
			_ = p.stdin.Close()
			if !kit.Within(3*kit.Patience, p.ended) {
				t.Fatalf("the program has not ended; it came to %d lines; stderr: %s", len(p.seen()), kit.Last(p.stderr.String(), 5))
			}
			got := map[string]json.RawMessage{}
			var steps []string
			for _, answer := range p.seen() {
				if answer.Step == "" {
					if !answer.Done {
						t.Errorf("manage ended with %s", answer.raw)
					}
					continue
				}
				steps = append(steps, answer.Step)
				got[answer.Step] = json.RawMessage(answer.raw)
			}
			file := filepath.Join("testdata", "manage-"+l.name+".json")
			if *kafka && *update {
				writeJSON(t, file, got)
				return
			}
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]json.RawMessage{}
			if err := json.Unmarshal(content, &want); err != nil {
				t.Fatal(err)
			}
			for _, step := range steps {
				if g, k := compact(t, got[step]), compact(t, want[step]); g != k {
					t.Errorf("%s\n got %s\nwant %s, as Kafka answers", step, g, k)
				}
				delete(want, step)
			}
			for step := range want {
				t.Errorf("%s: the program never came to it; stderr: %s", step, kit.Last(p.stderr.String(), 5))
			}
		})
	}
}

func writeJSON(t *testing.T, path string, v any) {
	t.Helper()
	content, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(content, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
}

// compact is a JSON value without blanks, its keys in order.
func compact(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	if raw == nil {
		return "nothing"
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	content, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// What one library writes with any codec, each reads; what is larger than max.message.bytes is refused by name.
func TestLibrariesReadWhatTheOthersCompress(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t)
	b := startBroker(t, w)
	b.topics("codecs", "large")
	const codecs, each = "none,gzip,snappy,lz4,zstd", 3
	written := 0
	for _, l := range libraries() {
		command, err := l.build(w)
		if err != nil {
			continue // its own part below says why
		}
		r := b.asAdmin("produce", "codecs")
		r.Compression, r.Size, r.Count = codecs, 300, each
		want := each * (1 + strings.Count(codecs, ","))
		if got := once(t, command, r); got.Produced != want {
			t.Fatalf("%s wrote %s, want %d records", l.name, got.raw, want)
		}
		written += want
	}
	for _, l := range libraries() {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			command := l.program(t, w)
			r := b.asAdmin("consume", "codecs")
			r.Group, r.Count = "g-"+l.name, written
			if got := once(t, command, r); got.Consumed != written {
				t.Errorf("read %s, want %d records", got.raw, written)
			}
			large := b.asAdmin("produce", "large")
			large.Count, large.Size = 1, 1_000_000
			if got := once(t, command, large); got.Produced != 1 {
				t.Errorf("a record of %d bytes: %s, want it to be written", large.Size, got.raw)
			}
			large.Size = 1_100_000
			if got := once(t, command, large); !regexp.MustCompile(`(?i)too.?large`).MatchString(got.Error) {
				t.Errorf("a record of %d bytes: %s, want it to be refused as too large", large.Size, got.raw)
			}
		})
	}
}

// Two members of a group share its partitions, and the one that stays gets all of them back.
func TestMembersOfLibrariesShareAndHandBack(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t)
	b := startBroker(t, w)
	for _, l := range libraries() {
		for _, protocol := range l.protocol {
			t.Run(l.name+" "+protocol, func(t *testing.T) {
				t.Parallel()
				command := l.program(t, w)
				r := b.groupOfFour(t, l.name+"-"+protocol)
				r.GroupProtocol = protocol
				first := startMember(t, command, r)
				first.wait(t, "the first member has all", func(has []int) bool { return len(has) == 4 })
				second := startMember(t, command, r)
				second.wait(t, "the second member has half", func(has []int) bool { return len(has) == 2 })
				first.wait(t, "the first member keeps half", func(has []int) bool { return len(has) == 2 })
				if all := append(first.has(), second.has()...); len(slices.Compact(slices.Sorted(slices.Values(all)))) != 4 {
					t.Errorf("they have %v, want each of four partitions once", all)
				}
				second.end(t)
				first.wait(t, "the first member has all again", func(has []int) bool { return len(has) == 4 })
				first.end(t)
			})
		}
	}
}

// A static member that is killed and comes back has its partitions again, and the others notice nothing.
func TestAStaticMemberOfALibraryComesBackUnnoticed(t *testing.T) {
	t.Parallel()
	w := newWorkshop(t)
	b := startBroker(t, w)
	for _, l := range libraries() {
		if !l.static {
			continue
		}
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			command := l.program(t, w)
			r := b.groupOfFour(t, "static-"+l.name)
			r.InstanceID = "one"
			one := startMember(t, command, r)
			one.wait(t, "the first member has all", func(has []int) bool { return len(has) == 4 })
			r.InstanceID = "two"
			two := startMember(t, command, r)
			two.wait(t, "the second member has half", func(has []int) bool { return len(has) == 2 })
			one.wait(t, "the first member keeps half", func(has []int) bool { return len(has) == 2 })
			had, changes := two.has(), len(one.seen())
			if err := two.cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-two.done
			again := startMember(t, command, r)
			again.wait(t, "the second member is back", func(has []int) bool { return len(has) == 2 })
			if got := again.has(); !slices.Equal(got, had) {
				t.Errorf("back it has %v, want what it had, %v", got, had)
			}
			if got := len(one.seen()); got != changes {
				t.Errorf("the other member saw %d changes, want the %d from before", got, changes)
			}
		})
	}
}

// groupOfFour makes a topic of four partitions, and the request of a member that reads it.
func (b *broker) groupOfFour(t *testing.T, name string) request {
	t.Helper()
	made, err := b.admin.CreateTopics(b.ctx(), 4, 1, nil, name)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
	r := b.asAdmin("member", name)
	r.TimeoutMS = 600_000
	return r
}

// member is a program that is a member of a group.
type member struct{ *running }

func startMember(t *testing.T, command []string, r request) member {
	t.Helper()
	return member{start(t, command, r)}
}

// has returns the partitions that a member has by what it told.
func (m member) has() []int {
	has := []int{}
	for _, l := range m.seen() {
		for _, p := range l.Partitions {
			if l.Change == "assigned" {
				has = append(has, p)
			} else {
				has = slices.DeleteFunc(has, func(other int) bool { return other == p })
			}
		}
	}
	slices.Sort(has)
	return has
}

func (m member) wait(t *testing.T, what string, ok func(has []int) bool) {
	t.Helper()
	if !kit.Within(kit.Patience, func() bool { return ok(m.has()) }) {
		var said []string
		for _, l := range m.seen() {
			said = append(said, l.raw)
		}
		t.Fatalf("%s: not within %v; it told %s; stderr: %s", what, kit.Patience, strings.Join(said, " "), kit.Last(m.stderr.String(), 5))
	}
}

// A broker's name may have addresses of both families where it listens in one only: every client comes to try the other.
func TestANameOfBothFamiliesIsReachedByTheOneThatListens(t *testing.T) {
	t.Parallel()
	if err := need("unshare", "mount"); err != nil || os.Geteuid() != 0 {
		t.Skipf("a hosts file of its own needs root, unshare and mount: %v", err)
	}
	if !hasIPv6() {
		t.Skip("there is no IPv6 here")
	}
	w := newWorkshop(t)
	b := startBroker(t, w)
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost\n::1 both.test six.test\n127.0.0.1 both.test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	apart := func(command []string) []string {
		return append([]string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" /etc/hosts && exec "$@"`, hosts}, command...)
	}
	if out, err := exec.Command("unshare", apart([]string{"true"})[1:]...).CombinedOutput(); err != nil {
		t.Skipf("a hosts file of its own cannot be had here: %s", lastLine(string(out)))
	}
	for _, c := range list() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			command := apart(c.program(t, w))
			names := map[string]string{"both.test": "IPv4"}
			if c.name == "kafkajs" { // which cannot read an address in brackets
				names["six.test"] = "IPv6"
			}
			for name, family := range names {
				r := b.request(pair{"PLAINTEXT", family}, "metadata", "")
				r.TimeoutMS = 120_000
				r.Bootstrap = fmt.Sprintf("%s:%d", name, b.port[pair{"PLAINTEXT", family}.listener()])
				got := once(t, command, r)
				if got.Error != "" {
					t.Errorf("metadata from %s, which listens in %s = %s, want an answer", name, family, got.said())
				}
				t.Logf("%s answered after %d ms", name, got.took())
			}
		})
	}
}

// The recorded answers are of clients that are listed.
func TestRecordedAnswersAreOfListedLibraries(t *testing.T) {
	t.Parallel()
	for _, l := range libraries() {
		if _, err := os.Stat(filepath.Join("testdata", "manage-"+l.name+".json")); errors.Is(err, fs.ErrNotExist) {
			t.Errorf("nothing was recorded of %s: go test ./e2e/clients -run AdminCalls -kafka -update", l.name)
		}
	}
}

// once runs a program for one request.
func once(t *testing.T, command []string, r request) *line {
	t.Helper()
	return (&program{command: command}).ask(t, r)
}
