package aclfile

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/brokerlab/brokerlab/broker/acl"
)

func rule(t acl.ResourceType, name string, k acl.PatternType, principal, host string, op acl.Operation, p acl.Permission) acl.Binding {
	return acl.Binding{Pattern: acl.Pattern{Type: t, Name: name, Kind: k}, Principal: principal, Host: host, Operation: op, Permission: p}
}

// samples are rules that every format can keep.
func samples() []acl.Binding {
	return []acl.Binding{
		rule(acl.Topic, "orders", acl.Literal, "User:alice", "100.64.1.2", acl.Read, acl.Allow),
		rule(acl.Topic, "orders", acl.Literal, "User:alice", "10.0.0.5/8", acl.Write, acl.Deny),
		rule(acl.Topic, "*", acl.Literal, "User:CN=bob.example", "2001:db8::1", acl.DescribeConfigs, acl.Allow),
		rule(acl.Group, "g, patternType=PREFIXED \"x\"", acl.Prefixed, "User:alice", "::1/128", acl.Read, acl.Allow),
		rule(acl.Cluster, acl.ClusterName, acl.Literal, "User:alice", "*", acl.IdempotentWrite, acl.Allow),
		rule(acl.TransactionalID, "tx|1", acl.Literal, "User:alice", "10.0.0.*", acl.Describe, acl.Allow),
	}
}

func bindings(entries []Entry) []acl.Binding {
	var all []acl.Binding
	for _, e := range entries {
		all = append(all, e.Binding)
	}
	return all
}

// same compares sets: a format may group rules.
func same(a, b []acl.Binding) bool {
	key := func(all []acl.Binding) []string {
		var texts []string
		for _, x := range all {
			texts = append(texts, fmt.Sprintf("%+q", x.String()))
		}
		slices.Sort(texts)
		return slices.Compact(texts)
	}
	return slices.Equal(key(a), key(b))
}

func TestEveryFormatKeepsRulesByteForByteAndIsDetected(t *testing.T) {
	t.Parallel()
	for _, f := range Formats() {
		var file bytes.Buffer
		if err := Write(&file, f, samples()); err != nil {
			t.Errorf("Write(%s) = %v", f, err)
			continue
		}
		if got, err := Detect("acls", file.Bytes()[:min(file.Len(), 4096)]); got != f || err != nil {
			t.Errorf("Detect(%s) = %s, %v", f, got, err)
		}
		text := file.String()
		entries, err := Read(&file, "acls", f)
		if err != nil || !same(bindings(entries), samples()) {
			t.Errorf("Read(Write(%s)) = %v, %v, from\n%s", f, entries, err, text)
		}
	}
}

func TestWhatAFormatCannotKeepIsRefusedWithTheRowNamed(t *testing.T) {
	t.Parallel()
	good := samples()[0]
	odd := func(change func(*acl.Binding)) acl.Binding {
		b := good
		change(&b)
		return b
	}
	for _, test := range []struct {
		f    Format
		rule acl.Binding
		want string
	}{
		{KafkaACLs, odd(func(b *acl.Binding) { b.Name = "a\nb" }), "control character"},
		{KafkaACLs, odd(func(b *acl.Binding) { b.Host = "x, host=y" }), "read as something else"},
		{KSM, odd(func(b *acl.Binding) { b.Principal = "User:\x1b[2J" }), "control character"},
		{Strimzi, odd(func(b *acl.Binding) { b.Principal = "User:*" }), "KafkaUser's name"},
		{Strimzi, odd(func(b *acl.Binding) { b.Principal = "Group:alice" }), "of type User"},
		{Strimzi, odd(func(b *acl.Binding) { b.Principal = "User:CN=bob,O=X" }), "KafkaUser's name"},
		{Strimzi, odd(func(b *acl.Binding) { b.Type = acl.DelegationToken }), "no resource type DELEGATION_TOKEN"},
		{Terraform, odd(func(b *acl.Binding) { b.Type, b.Operation = acl.TransactionalID, acl.TwoPhaseCommit }), "no operation TWO_PHASE_COMMIT"},
		{JSONLines, odd(func(b *acl.Binding) { b.Host = "" }), "Host pattern cannot be null or empty"},
		{JSONLines, odd(func(b *acl.Binding) { b.Name = "\xff" }), "not UTF-8"},
	} {
		var out bytes.Buffer
		err := Write(&out, test.f, []acl.Binding{good, test.rule})
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "row 2, ") || out.Len() > 0 {
			t.Errorf("Write(%s, %v) = %v and %d bytes, want row 2 refused: %s", test.f, test.rule, err, out.Len(), test.want)
		}
	}
}

func TestFilesOfTheRealToolsAreRead(t *testing.T) {
	t.Parallel()
	alice := rule(acl.Topic, "foo", acl.Literal, "User:alice", "*", acl.Read, acl.Allow)
	for name, test := range map[string]struct {
		f    Format
		text string
		want []acl.Binding
	}{
		"ksm": {KSM, "KafkaPrincipal,ResourceType,PatternType,ResourceName,Operation,PermissionType,Host\nUser:alice,Topic,LITERAL,foo,Read,Allow,*\nUser:bob,Group,PREFIXED,bar,Write,Deny,12.34.56.78\n", []acl.Binding{
			alice, rule(acl.Group, "bar", acl.Prefixed, "User:bob", "12.34.56.78", acl.Write, acl.Deny),
		}},
		"ksm before 0.4":        {KSM, "KafkaPrincipal,ResourceType,ResourceName,Operation,PermissionType,Host\r\nUser:alice,Topic,foo,Read,Allow,*\r\n", []acl.Binding{alice}},
		"ksm with semicolons":   {KSM, "KafkaPrincipal;ResourceType;PatternType;ResourceName;Operation;PermissionType;Host\nUser:alice;Topic;LITERAL;foo;Read;Allow;*\n", []acl.Binding{alice}},
		"list for a principal":  {KafkaACLs, "ACLs for principal `User:alice`\nCurrent ACLs for resource `ResourcePattern(resourceType=TOPIC, name=foo, patternType=LITERAL)`: \n \t(principal=User:alice, host=*, operation=READ, permissionType=ALLOW) \n\n", []acl.Binding{alice}},
		"strimzi, old and new":  {Strimzi, "# users\napiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaUser\nmetadata: {name: alice}\nspec:\n  authorization:\n    type: simple\n    acls:\n      - resource: {type: topic, name: foo}\n        operation: Read\n---\nkind: KafkaTopic\nmetadata: {name: foo}\n---\nkind: KafkaUser\nmetadata:\n  name: carol\nspec:\n  authentication: {type: tls}\n  authorization:\n    type: simple\n    acls:\n    - type: deny\n      resource: {type: cluster}\n      operations: [Alter]\n      host: 10.0.0.0/8\n", []acl.Binding{alice, rule(acl.Cluster, acl.ClusterName, acl.Literal, "User:CN=carol", "10.0.0.0/8", acl.Alter, acl.Deny)}},
		"a list of strimzi":     {Strimzi, "apiVersion: v1\nkind: List\nitems:\n- kind: KafkaUser\n  metadata: {name: alice}\n  spec: {authorization: {type: simple, acls: [{resource: {type: topic, name: foo, patternType: literal}, operations: [Read]}]}}\n", []acl.Binding{alice}},
		"terraform":             {Terraform, `{"version":4,"terraform_version":"1.5.7","resources":[{"mode":"managed","type":"kafka_topic","instances":[]},{"mode":"managed","type":"kafka_acl","name":"a","instances":[{"schema_version":1,"attributes":{"acl_host":"*","acl_operation":"Read","acl_permission_type":"Allow","acl_principal":"User:alice","id":"User:alice|*|Read|Allow|Topic|foo|Literal","resource_name":"foo","resource_pattern_type_filter":"Literal","resource_type":"Topic"}}]}]}`, []acl.Binding{alice}},
		"an id alone, of pipes": {Terraform, `{"version":4,"resources":[{"mode":"managed","type":"kafka_acl","instances":[{"attributes":{"id":"User:a|b|*|Read|Allow|Topic|x|y|Prefixed"}}]}]}`, []acl.Binding{rule(acl.Topic, "x|y", acl.Prefixed, "User:a|b", "*", acl.Read, acl.Allow)}},
		"the list's JSON":       {JSONLines, `[ {"resourceType":"TOPIC","name":"foo","patternType":"LITERAL","principal":"User:alice","host":"*","operation":"READ","permissionType":"ALLOW"} ]`, []acl.Binding{alice}},
	} {
		got, err := Read(strings.NewReader(test.text), name, test.f)
		if err != nil || !slices.Equal(bindings(got), test.want) {
			t.Errorf("%s: Read = %v, %v, want %v", name, got, err, test.want)
		}
	}
}

func TestAllThatIsWrongWithAFileIsSaidAtOnceWithItsLine(t *testing.T) {
	t.Parallel()
	for f, test := range map[Format]struct {
		text string
		want []string
	}{
		KafkaACLs: {"(principal=User:a, host=*, operation=READ, permissionType=ALLOW)\nnonsense\nCurrent ACLs for resource `ResourcePattern(resourceType=THING, name=x, patternType=LITERAL)`:\n\t(principal=a, host=*, operation=EAT, permissionType=ALLOW)\n", []string{"f:1: an entry before", "f:2: is no line", `f:4: unknown resource type "THING"`, `f:4: unknown operation "EAT"`}},
		KSM:       {"KafkaPrincipal,ResourceType,PatternType,ResourceName,Operation,PermissionType,Host\nUser:a,Topic,LITERAL,t,Read,Allow,\nalice,Topic,LITERAL,t,Read,Allow,*\nUser:a,Topic\n", []string{"f:2: Host pattern cannot", "f:3: Could not parse principal", "f:4: has 2 fields"}},
		Strimzi:   {"kind: KafkaUser\nmetadata:\n  name: a\nspec:\n  authorization:\n    type: simple\n    acls:\n      - resource: {type: thing, name: x}\n        operations: [Read]\n      - resource: {type: topic, name: x}\n        hosts: [a]\n        operations: [Read]\n---\nkind: KafkaUser\n", []string{`f:8: unknown resource type "thing"`, `f:11: acl: unknown field "hosts"`, "f:14: KafkaUser: want metadata.name"}},
		Terraform: {"{\"version\":4,\n\"resources\":[{\"type\":\"kafka_acl\",\"instances\":[\n{\"attributes\":{\"acl_principal\":\"User:a\",\"resource_type\":\"Cluster\",\"resource_name\":\"cluster\",\"acl_host\":\"*\",\"acl_operation\":\"Alter\",\"acl_permission_type\":\"Allow\"}},\n{\"attributes\":{}}]}]}", []string{"f:3: The only valid name for the CLUSTER resource is kafka-cluster", "f:4: has no attributes"}},
		JSONLines: {"{}\n{\"hosts\":1}\nx\n", []string{`f:1: unknown resource type ""`, `f:2: json: unknown field "hosts"`, "f:3: invalid character"}},
	} {
		_, err := Read(strings.NewReader(test.text), "f", f)
		for _, want := range test.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Read(%s) = %v, want also %q", f, err, want)
			}
		}
	}
}

// What a YAML parser reads and this package does not must not be lost without a word.
func TestRulesThatWouldBeLostAreRefused(t *testing.T) {
	t.Parallel()
	const user = "kind: KafkaUser\nmetadata:\n  name: a\nspec:\n  authorization:\n    type: simple\n    acls:\n      - resource: {type: topic, name: x}\n        operations: [Read]\n"
	for what, text := range map[string]string{
		"a document after ...": user + "...\n" + user,
		"a merged spec":        "kind: KafkaUser\nmetadata: {name: a}\nbase: &base\n  authorization: {type: simple, acls: [{resource: {type: topic, name: x}, operations: [Read]}]}\nspec:\n  <<: *base\n",
		"a merged rule":        user + "      - <<: &rule {type: deny}\n        resource: {type: topic, name: x}\n        operations: [Read]\n",
		"an alias":             "kind: KafkaUser\nmetadata: {name: a}\nbase: &base {authorization: {type: simple}}\nspec: *base\n",
	} {
		if entries, err := Read(strings.NewReader(text), "f", Strimzi); err == nil {
			t.Errorf("%s: %d rules are read and nothing is said", what, len(entries))
		}
	}
}

func TestHostileFilesCostAnErrorAndLittleTime(t *testing.T) {
	t.Parallel()
	for _, f := range Formats() {
		for what, text := range map[string]string{
			"brackets": strings.Repeat("[", 200_000), "braces": strings.Repeat("{", 200_000), "objects": strings.Repeat(`{"resources":`, 100_000),
			"items": strings.Repeat("- ", 100_000), "indents": strings.Repeat("a: ", 100_000), "quotes": strings.Repeat("\"\n", 100_000), "binary": "\xff\x00",
			"bad rows": strings.Repeat("x\n", 200_000),
		} {
			start := time.Now()
			entries, err := Read(strings.NewReader(text), what, f)
			if err == nil {
				t.Errorf("Read(%s, %s) = %d entries, want an error", f, what, len(entries))
				continue
			}
			if len(err.Error()) > 200_000 {
				t.Errorf("Read(%s, %s) complains in %d bytes", f, what, len(err.Error()))
			}
			t.Logf("%s %s: %v", f, what, time.Since(start))
		}
	}
}

func TestTheExampleIsRead(t *testing.T) {
	t.Parallel()
	file, err := os.Open("../../examples/acls/acls.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if entries, err := Read(file, "acls.txt", KafkaACLs); err != nil || len(entries) != 14 {
		t.Errorf("Read = %d entries, %v, want 14", len(entries), err)
	}
}
