package topology

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBrokerGetsFourListenersAndAnAddressOfEachFamily(t *testing.T) {
	lab := parse(t, "name: x\nnodes: {b: {kind: broker, expose: [29092, {port: 29095, protocol: SASL_SSL}]}}")
	want := []Node{{
		Name: "b", Kind: Broker,
		Addresses: []netip.Addr{netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("fd00:6c61:62::1")},
		Config:    map[string]string{"node.id": "1"},
		Listeners: []Listener{
			{"PLAINTEXT", "PLAINTEXT", "", 9092},
			{"SSL", "SSL", "", 9093},
			{"SASL_PLAINTEXT", "SASL_PLAINTEXT", "", 9094},
			{"SASL_SSL", "SASL_SSL", "", 9095},
		},
		Expose: []Expose{{29092, "PLAINTEXT"}, {29095, "SASL_SSL"}},
		Ports:  []uint16{9092, 9093, 9094, 9095, 29092, 29095},
	}}
	if diff := cmp.Diff(want, lab.Nodes, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if got, want := fmt.Sprint(lab.Users), "[{admin admin-secret } {alice alice-secret } {bob bob-secret }]"; got != want {
		t.Errorf("users = %s, want %s", got, want)
	}
}

func TestConfigWinsOverConfigFileAndNamesListeners(t *testing.T) {
	folder := t.TempDir()
	err := os.WriteFile(filepath.Join(folder, "server.properties"), []byte("num.io.threads=2\nnode.id = 7\n"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	lab, err := Parse(filepath.Join(folder, "lab.yaml"), []byte(`
name: x
nodes:
  b:
    kind: broker
    config-file: server.properties
    config:
      num.io.threads: 4
      auto.create.topics.enable: false
      super.users: [User:a, User:b]
      listener.security.protocol.map: IN:SSL
      listeners: IN://:9000
`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"num.io.threads": "4", "node.id": "7", "auto.create.topics.enable": "false",
		"super.users": "User:a,User:b", "listener.security.protocol.map": "IN:SSL",
	}
	if diff := cmp.Diff(want, lab.Nodes[0].Config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Listener{{"IN", "SSL", "", 9000}}, lab.Nodes[0].Listeners); diff != "" {
		t.Errorf("listeners (-want +got):\n%s", diff)
	}
}

func TestCountCutsSubnetsAroundWhatIsTaken(t *testing.T) {
	lab := parse(t, `
name: x
nodes: {b: {kind: broker, addresses: 10.8.2.9}}
subnets:
  fixed: {cidr: [10.8.0.0/24, 10.8.4.0/23]}
  many: {count: 12, from: [10.8.0.0/20, "fd00:8::/48"], prefix: [24, 64]}
`)
	var got []string
	for _, s := range lab.Subnets {
		got = append(got, fmt.Sprint(s.Name, s.Prefixes))
	}
	want := []string{"fixed[10.8.0.0/24 10.8.4.0/23]"}
	for i, third := range []int{1, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} {
		v6 := fmt.Sprintf("fd00:8:0:%x::/64", i)
		if i == 0 {
			v6 = "fd00:8::/64"
		}
		want = append(want, fmt.Sprintf("many-%d[10.8.%d.0/24 %s]", i+1, third, v6))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("subnets (-want +got):\n%s", diff)
	}
}

func TestNodeAddressesAvoidSubnets(t *testing.T) {
	lab := parse(t, "name: x\nnodes: {b: {kind: broker}}\nsubnets: {s: {cidr: [198.18.0.0/16, \"fd00::/16\"]}}", wantProblem("is used up"))
	if lab != nil {
		t.Fatal("a lab whose node has no free IPv6 address was accepted")
	}
	lab = parse(t, "name: x\nnodes: {b: {kind: broker}}\nsubnets: {s: {cidr: 198.18.0.0/16}}")
	if got := lab.Nodes[0].Addr(false); got.String() != "198.19.0.0" {
		t.Errorf("address = %s, want 198.19.0.0", got)
	}
}

func TestNodesAreOrderedByTheNumbersInTheirNames(t *testing.T) {
	lab := parse(t, "name: x\nnodes: {b10: {kind: broker}, b9: {kind: broker}, a: {kind: broker}}")
	var got []string
	for _, n := range lab.Nodes {
		got = append(got, n.Name+"="+n.Config["node.id"])
	}
	if want := "a=1 b9=2 b10=3"; strings.Join(got, " ") != want {
		t.Errorf("nodes = %s, want %s", got, want)
	}
}

// Each wrong file with the place and the beginning of every problem that must be reported, and no others.
func TestEveryProblemIsReportedAtItsPlace(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "", []string{"1:1: is empty"}},
		{"no mapping", "- a", []string{"1:1: is a list: want a mapping"}},
		{"two documents", "name: a\n---\nname: b", []string{"1:1: has more than one YAML document"}},
		{"bad YAML", "name: a\n  b: [", []string{"1:7: mapping value is not allowed"}},
		{"unquoted IPv6", "name: x\nsubnets:\n  a: {cidr: fd00::/16}\n  b:\n    cidr: fd01::/16\n  c:\n    cidr:\n    - fd02::/16\n  d: {cidr: [fd03::/16]}", []string{"9:18: is a mapping: want a single value (an IPv6 address needs quotes here)"}},
		{"no name", "nodes: {b: {kind: broker}}", []string{"1:1: name is missing"}},
		{"nothing in it", "name: x", []string{"1:1: has neither nodes nor subnets"}},
		{"unknown keys", "name: x\nnods: {}\nsubnets:\n  a: {cdir: 10.0.0.0/8, cidr: 11.0.0.0/8}", []string{
			`2:1: unknown key "nods": did you mean "nodes"?`,
			`4:7: unknown key "cdir": did you mean "cidr"?`,
		}},
		{"unlike any key", "name: x\nsubnets: {a: {cidr: 11.0.0.0/8, qqqqqqqqq: 1}}", []string{`2:33: unknown key "qqqqqqqqq": known are cidr, count, from, prefix`}},
		{"unknown kind", "name: x\nnodes: {b: {kind: brokr}}", []string{`2:13: unknown kind "brokr": did you mean "broker"?`}},
		{"twice", "name: x\nname: y\nsubnets: {a: {cidr: 11.0.0.0/8}, a: {cidr: 12.0.0.0/8}}", []string{
			`2:1: "name" is here twice: it was set in line 1`,
			`3:34: "a" is here twice: it was set in line 3`,
		}},
		{"one name for two things", "name: x\nnodes: {Office: {kind: broker}}\nsubnets: {office: {cidr: 10.0.0.0/8}}", []string{`3:11: name "office" is taken: it is a node`}},
		{"reserved name", "name: x\nsubnets: {router: {cidr: 10.0.0.0/8}}", []string{`2:11: name "router" is taken: it is the lab's router`}},
		{"long names", "name: x" + strings.Repeat("x", 40) + "\nsubnets: {a" + strings.Repeat("b", 40) + ": {cidr: 10.0.0.0/8}}", []string{"1:1: name", "2:11: name"}},
		{"odd names", "name: ../x\nnodes: {a_b: {kind: broker}}", []string{"1:1: name", "2:9: name"}},
		{"bad CIDRs", "name: x\nsubnets:\n  a:\n    cidr:\n    - 10.0.0.1/24\n    - 10.0.0.0/33\n    - ten\n    - 127.0.0.0/8\n    - 0.0.0.0/0\n    - \"::ffff:10.0.0.0/104\"\n    - 169.254.1.0/24", []string{
			"5:7: 10.0.0.1/24 has host bits set: did you mean 10.0.0.0/24?",
			"6:7: \"10.0.0.0/33\" is no CIDR prefix",
			"7:7: \"ten\" is no CIDR prefix",
			"8:7: 127.0.0.0/8 overlaps 127.0.0.0/8, which is for loopback",
			"9:7: 0.0.0.0/0 is the whole address space",
			"10:7: ::ffff:10.0.0.0/104 is an IPv4-mapped prefix",
			"11:7: 169.254.1.0/24 overlaps 169.254.0.0/16, which is for the links inside the lab",
		}},
		{"overlaps", "name: x\nnodes: {b: {kind: broker, addresses: [10.1.0.9, 10.1.0.9]}}\nsubnets:\n  a: {cidr: [10.0.0.0/8, 'fd00::/16']}\n  b2: {cidr: [10.2.0.0/16, 'fd00:1::/32']}", []string{
			"2:39: 10.1.0.9 overlaps 10.0.0.0/8 of subnet a",
			"2:49: 10.1.0.9 overlaps 10.0.0.0/8 of subnet a",
			"5:15: 10.2.0.0/16 overlaps 10.0.0.0/8 of subnet a",
			"5:28: fd00:1::/32 overlaps fd00::/16 of subnet a",
		}},
		{"pools", "name: x\nsubnets:\n  a: {count: 5, from: 10.0.0.0/22}\n  b: {count: 0, from: 10.0.0.0/8}\n  c: {count: 2}\n  d: {count: 2, from: 11.0.0.0/24, prefix: 8}\n  e: {count: 2, from: 11.0.0.0/24, prefix: [25, 26]}\n  f: {}\n  g: {count: 1, cidr: 12.0.0.0/8}", []string{
			"3:17: 10.0.0.0/22 has room for 4 of the 5 subnets of length 24",
			"4:7: count is 0: want 1 to 2000",
			"5:3: subnet \"c\" needs from",
			"6:17: subnets of length 8 cannot be cut from 11.0.0.0/24",
			"7:36: prefix has 2 lengths for 1 pools",
			"8:3: subnet \"f\" needs cidr, or count and from",
			"9:3: subnet \"g\" has both cidr and count",
		}},
		{"wrong types", "name: [x]\nnodes: 5\nsubnets: {a: {count: many, from: 10.0.0.0/8, cidr: {a: b}}}", []string{
			"1:1: is a list: want a single value", "2:1: is \"5\": want a mapping", "3:15: \"many\" is not a whole number", "3:46: is a mapping: want a list",
		}},
		{"anchors", "name: &n x\nsubnets: {a: {cidr: *n}}", []string{"1:1: anchors", "2:15: anchors"}},
		{"listeners", "name: x\nnodes:\n  b:\n    kind: broker\n    listeners: [PLAINTEXT://:70000, nonsense, CLIENTS://:9092, 'SSL://:1', 'SSL://:2']\n    expose: [1, 0, 2, 2]", []string{
			`5:5: "PLAINTEXT://:70000"`, `5:5: "nonsense" is no listener`, "5:5: listener CLIENTS: CLIENTS is no security protocol", "5:5: listener SSL is here twice",
			"6:14: port 1 is that of another listener", `6:17: "0" is not a port`, "6:23: port 2 is that of another listener", "6:23: port 2 is exposed by b already",
		}},
		{"exec", "name: x\nnodes:\n  a: {kind: exec}\n  b: {kind: exec, cmd: x, config: {a: b}}\n  c: {kind: broker, cmd: x}", []string{
			"3:3: cmd is missing", "4:27: a node of kind exec has no config", "5:21: a node of kind broker has no cmd",
		}},
		{"node ids", "name: x\nnodes:\n  a: {kind: broker, config: {node.id: 2}}\n  b: {kind: broker}", []string{"4:3: node.id 2 is that of a"}},
		{"users", "name: x\nnodes: {b: {kind: broker}}\nusers: {'a b': {}, c: {pasword: x}}", []string{`3:9: user "a b"`, `3:24: unknown key "pasword": did you mean "password"?`}},
		{"names of certificates", "name: x\nnodes: {b: {kind: broker}}\nusers:\n  a: {dn: alice}\n  b: {dn: 'CN=a,WHO=x'}\n  c: {dn: 'CN=\"a'}", []string{
			`4:7: "alice" is no distinguished name such as CN=alice,OU=billing: "alice" has no =`, `5:7: "CN=a,WHO=x" is no distinguished name such as CN=alice,OU=billing: unknown part "WHO"`,
			"6:7: \"CN=\\\"a\" is no distinguished name such as CN=alice,OU=billing: the value of CN: a quote is not closed",
		}},
		{"topics", "name: x\nnodes: {b: {kind: broker}}\ntopics:\n  a b:\n  ..: {partitions: 0}\n  c: {partitions: -1}\n  d: {partitions: 1000001}", []string{
			`4:3: topic "a b": want`, `5:3: topic ".."`, "6:7: partitions is -1", "7:7: partitions is 1000001",
		}},
		{"rules", "name: x\nnodes: {b: {kind: broker}}\nacls:\n- {}\n- {principal: alice, operation: REED, resource: topik:x, permission: no, pattern: glob}\n- {principal: 'User:a', operation: all, resource: Topic}\n- {principal: 'User:a', operation: describe-configs, resource: 'Cluster:c'}\nacl-file: missing.txt", []string{
			"4:3: principal is missing", "4:3: resource is missing", "4:3: operation is missing",
			`5:4: principal "alice"`, `5:22: unknown operation "REED": did you mean "READ"?`, `5:39: unknown resource type "topik": did you mean "TOPIC"?`,
			`5:58: unknown permission "no"`, `5:74: unknown pattern "glob"`,
			`6:41: resource "Topic" has no name`, "7:54: the only name of the cluster is kafka-cluster", "8:1: read rules: ",
		}},
		{"expectations", "name: x\nnodes: {b: {kind: broker}}\nsubnets: {s: {cidr: 10.1.0.0/24}}\nacls: [{principal: 'User:a', operation: READ, resource: 'Topic:t'}]\nexpect:\n- {}\n- {principal: 'User:a', from: 10.2.0.1, resource: 'Topic:t', listener: SLL, operations: {READ: maybe, WRITE: allow 2, CREATE: deny x, TWO_PHASE_COMMIT: deny}}\n- {principal: 'User:a', from: ten, resource: 'Group:g', operations: {WRITE: deny}}", []string{
			"6:3: principal is missing", "6:3: resource is missing", "6:3: from is missing", "6:3: operations is missing",
			"7:25: 10.2.0.1 is in no subnet", `7:62: no broker has a listener "SLL": did you mean "SSL"?`,
			`7:90: "maybe": want allow or deny`, `7:103: "allow 2": the last rule is 1`, `7:119: "deny x": "x" is not the number of a rule`, `7:135: TOPIC has no operation "TWO_PHASE_COMMIT"`,
			`8:25: "ten" is no IPv4 or IPv6 address`, `8:70: GROUP has no operation "WRITE"`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Parse("lab.yaml", []byte(test.text))
			var problems InvalidError
			if !errors.As(err, &problems) {
				t.Fatalf("Parse = %v, want InvalidError", err)
			}
			for i, p := range problems {
				if i >= len(test.want) || !strings.HasPrefix(p.String(), "lab.yaml:"+test.want[i]) {
					t.Errorf("problem %d = %s, want %q", i, p, append(test.want, make([]string, len(problems))...)[i])
				}
			}
			if len(problems) < len(test.want) {
				t.Errorf("problems = %d, want %d:\n%v", len(problems), len(test.want), err)
			}
		})
	}
}

func TestDeepAndLargeFilesAreRefused(t *testing.T) {
	for _, text := range []string{
		"name: x\nnodes: " + strings.Repeat("[", 100_000),
		strings.Repeat("{a: ", 50_000),
		strings.Repeat("- ", 100_000),
		"name: x\nsubnets: {a: {cidr: " + strings.Repeat("[", 50) + strings.Repeat("]", 50) + "}}",
		strings.Repeat("a:\n", 50_000),
		"name: " + strings.Repeat("x", 2<<20),
		"name: \xff",
	} {
		if _, err := Parse("lab.yaml", []byte(text)); err == nil {
			t.Errorf("Parse(%.30q…) = nil, want an error", text)
		}
	}
}

func TestHundredProblemsAreEnough(t *testing.T) {
	_, err := Parse("lab.yaml", []byte("name: x\nsubnets:\n"+strings.Repeat("  a: {}\n", 1000)))
	var problems InvalidError
	if !errors.As(err, &problems) || len(problems) != maxProblems+1 || problems[maxProblems].Text != "there are more problems than these" {
		t.Errorf("problems = %d, want %d and a last word", len(problems), maxProblems)
	}
}

func TestRulesAndExpectationsAreReadInKafkasWords(t *testing.T) {
	lab := parse(t, `
name: x
nodes: {b: {kind: broker}}
subnets: {s: {cidr: 10.1.0.0/24}}
topics: {orders: , "a.b": {partitions: 3}}
acls:
- {principal: "User:alice", host: 10.1.0.5/24, operation: read, resource: "topic:orders"}
- {principal: "User:*", operation: describe-configs, resource: cluster, permission: deny}
- {principal: "User:alice", operation: All, resource: "transactional-id:tx:1", pattern: prefixed}
expect:
- {principal: "User:alice", from: 10.1.0.7, resource: "Topic:orders", listener: ssl, operations: {Read: allow 1, DescribeConfigs: DENY}}
`)
	if diff := cmp.Diff([]Topic{{"a.b", 3}, {"orders", 1}}, lab.Topics); diff != "" {
		t.Errorf("topics (-want +got):\n%s", diff)
	}
	orders := Resource{"TOPIC", "orders"}
	if diff := cmp.Diff([]ACL{
		{"User:alice", "10.1.0.5/24", "READ", "ALLOW", orders, "LITERAL"},
		{"User:*", "*", "DESCRIBE_CONFIGS", "DENY", Resource{"CLUSTER", "kafka-cluster"}, "LITERAL"},
		{"User:alice", "*", "ALL", "ALLOW", Resource{"TRANSACTIONAL_ID", "tx:1"}, "PREFIXED"},
	}, lab.ACLs); diff != "" {
		t.Errorf("acls (-want +got):\n%s", diff)
	}
	want := []Expectation{{
		"User:alice", netip.MustParseAddr("10.1.0.7"), orders, "SSL",
		[]ExpectedOperation{{"DESCRIBE_CONFIGS", false, 0}, {"READ", true, 1}},
		11,
	}}
	if diff := cmp.Diff(want, lab.Expect, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("expect (-want +got):\n%s", diff)
	}
}

func TestResolveOfAFileMadeInGo(t *testing.T) {
	f := File{Name: "x", Nodes: map[string]FileNode{"b": {Kind: Broker}}, Subnets: map[string]FileSubnet{"s": {CIDR: Strings{"10.0.0.0/24"}}}}
	lab, err := f.Resolve(".")
	if err != nil || len(lab.Subnets) != 1 {
		t.Fatalf("Resolve = %v, %v, want a lab with one subnet", lab, err)
	}
	f.Subnets["t"] = FileSubnet{CIDR: Strings{"10.0.0.0/8"}}
	if _, err := f.Resolve("."); err == nil || err.Error() != "x: 10.0.0.0/8 overlaps 10.0.0.0/24 of subnet s" {
		t.Errorf("Resolve = %v, want the overlap", err)
	}
}

func wantProblem(text string) string { return text }

func parse(t *testing.T, text string, problem ...string) *Lab {
	t.Helper()
	lab, err := Parse("lab.yaml", []byte(text))
	if len(problem) > 0 {
		if err == nil || !strings.Contains(err.Error(), problem[0]) {
			t.Fatalf("Parse = %v, want %q", err, problem[0])
		}
		return nil
	}
	if err != nil {
		t.Fatalf("Parse = %v, want nil", err)
	}
	return lab
}

// A text gives a lab whose prefixes and addresses are all disjoint, or problems that each stand in the text. It never
// panics, and what it accepts it accepts again.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("name: x\nsubnets: {a: {count: 3, from: [10.0.0.0/30, ::/1], prefix: [31, 127]}}")
	f.Add("name: &a x\nnodes: {b: *a, <<: *a}")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "config-file") {
			return // it would read what the fuzzer names
		}
		lab, err := Parse("lab.yaml", []byte(text))
		if err != nil {
			var problems InvalidError
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("Parse = %v, want InvalidError", err)
			}
			for _, p := range problems {
				if lines := strings.Count(text, "\n") + strings.Count(text, "\r") + 1; p.Line < 1 || p.Line > lines || p.Column < 1 {
					t.Fatalf("problem at %d:%d, text has %d lines: %s", p.Line, p.Column, lines, p)
				}
			}
			return
		}
		var all []netip.Prefix
		for _, s := range lab.Subnets {
			if len(s.Prefixes) == 0 {
				t.Fatalf("subnet %s has no prefix", s.Name)
			}
			all = append(all, s.Prefixes...)
		}
		for i := range lab.Nodes {
			for _, a := range lab.Nodes[i].Addresses {
				all = append(all, netip.PrefixFrom(a, a.BitLen()))
			}
		}
		for i := range all[:min(len(all), 100)] {
			for k := range i {
				if all[i].Overlaps(all[k]) {
					t.Fatalf("%s overlaps %s", all[i], all[k])
				}
			}
		}
	})
}
