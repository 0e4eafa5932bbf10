package aclfile

import (
	"bytes"
	"testing"
)

// What is read can be written as JSON lines and read again as the same; what the format itself can write reads back too.
func fuzzFormat(f *testing.F, format Format, seeds ...string) {
	f.Helper()
	var sample bytes.Buffer
	if err := Write(&sample, format, samples()); err != nil {
		f.Fatal(err)
	}
	f.Add(sample.Bytes())
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		entries, err := Read(bytes.NewReader(text), "f", format)
		if err != nil {
			return
		}
		for _, to := range []Format{JSONLines, format} {
			var out bytes.Buffer
			if err := Write(&out, to, bindings(entries)); err != nil {
				if to == JSONLines {
					t.Fatalf("Write(jsonl) of what was read = %v", err)
				}
				continue
			}
			again, err := Read(&out, "f", to)
			if err != nil || !same(bindings(again), bindings(entries)) {
				t.Fatalf("Read(Write(%s)) = %v, %v, want %v", to, again, err, entries)
			}
		}
	})
}

func FuzzKafkaACLs(f *testing.F) { fuzzFormat(f, KafkaACLs, "ACLs for principal `User:a`\n") }

func FuzzStrimzi(f *testing.F) {
	fuzzFormat(f, Strimzi, "kind: KafkaUser\nmetadata: {name: a}\nspec: {authorization: {type: simple, acls: [{resource: {type: topic, name: x}, operation: Read}]}}\n", "a: &x [*x]")
}

func FuzzKSM(f *testing.F) {
	fuzzFormat(f, KSM, "KafkaPrincipal;ResourceType;ResourceName;Operation;PermissionType;Host\nUser:a;Topic;x;Read;Allow;*\n")
}

func FuzzTerraform(f *testing.F) {
	fuzzFormat(f, Terraform, `{"version":4,"resources":[{"type":"kafka_acl","instances":[{"attributes":{"id":"User:a|*|Read|Allow|Topic|x|Literal"}}]}]}`)
}

func FuzzJSONLines(f *testing.F) { fuzzFormat(f, JSONLines, `[{"resourceType":"TOPIC"}]`) }
