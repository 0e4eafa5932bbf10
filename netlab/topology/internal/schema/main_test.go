package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/brokerlab/brokerlab/netlab/topology"
)

const (
	source   = "../.." // package topology, from here
	document = "../../docs/lab.schema.json"
)

func TestCommittedSchemaIsFresh(t *testing.T) {
	t.Chdir(source)
	want, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the source says: run go generate ./netlab/topology", document)
	}
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(document)
	if err != nil {
		t.Fatalf("compile the schema: %v", err)
	}
	return schema
}

func TestExamplesResolveAndMatchTheSchema(t *testing.T) {
	t.Chdir(source)
	schema := compiled(t)
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("Glob = %v, %v, want examples", files, err)
	}
	for _, file := range files {
		if _, err := topology.Load(file); err != nil {
			t.Errorf("Load(%s) = %v, want nil", file, err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(schema, text); err != nil {
			t.Errorf("validate(%s) = %v, want nil", file, err)
		}
	}
}

func TestSchemaRefusesWhatTheParserRefuses(t *testing.T) {
	t.Chdir(source)
	schema := compiled(t)
	for _, text := range []string{
		"nodes: {b: {kind: broker}}",
		"name: x\nnode: {b: {kind: broker}}",
		"name: x\nnodes: {b: {kind: brocker}}",
		"name: x\nnodes: {b: {kind: exec, cmd: true, ports: [0]}}",
		"name: x\nsubnets: {a: {cidr: {a: 1}}}",
	} {
		if err := validate(schema, []byte(text)); err == nil {
			t.Errorf("validate(%q) = nil, want an error", text)
		}
		if _, err := topology.Parse("lab.yaml", []byte(text)); err == nil {
			t.Errorf("Parse(%q) = nil, want an error", text)
		}
	}
}

func validate(schema *jsonschema.Schema, text []byte) error {
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}
