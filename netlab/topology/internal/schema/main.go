// Command schema writes the JSON schema of lab files, made from the types of package topology and their comments. Run it
// from that package's folder, by go generate.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"

	"github.com/invopop/jsonschema"

	"github.com/brokerlab/brokerlab/netlab/topology"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "schema:", err)
		os.Exit(1) //nolint:forbidigo // this is a main
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument, the file to write, have %d", len(args))
	}
	text, err := generate()
	if err != nil {
		return err
	}
	return os.WriteFile(args[0], text, 0o644) //nolint:gosec // a document for everybody
}

// generate makes the schema; the working folder is that of package topology, whose source has the comments.
func generate() ([]byte, error) {
	r := jsonschema.Reflector{ExpandedStruct: true, Mapper: special}
	if err := r.AddGoComments("github.com/brokerlab/brokerlab/netlab/topology", "."); err != nil {
		return nil, fmt.Errorf("read comments: %w", err)
	}
	schema := r.Reflect(&topology.File{})
	schema.ID = "https://github.com/brokerlab/brokerlab/docs/lab.schema.json"
	schema.Title = "brokerlab lab file"
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

// special describes the types that a file may write in more than one way.
func special(t reflect.Type) *jsonschema.Schema {
	str, integer := &jsonschema.Schema{Type: "string"}, &jsonschema.Schema{Type: "integer"}
	port := &jsonschema.Schema{Type: "integer", Minimum: "1", Maximum: "65535"}
	scalar := []*jsonschema.Schema{str, {Type: "number"}, {Type: "boolean"}, {Type: "null"}}
	orList := func(one *jsonschema.Schema) *jsonschema.Schema {
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{one, {Type: "array", Items: one}}}
	}
	switch t {
	case reflect.TypeFor[topology.Strings]():
		return orList(str)
	case reflect.TypeFor[topology.Ints]():
		return orList(integer)
	case reflect.TypeFor[topology.Port]():
		return port
	case reflect.TypeFor[topology.Text]():
		return &jsonschema.Schema{AnyOf: append(scalar, &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{AnyOf: scalar}})}
	case reflect.TypeFor[[]topology.FileExpose]():
		object := (&jsonschema.Reflector{Anonymous: true, DoNotReference: true, ExpandedStruct: true, Mapper: special}).Reflect(&topology.FileExpose{})
		object.Version = ""
		return &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{OneOf: []*jsonschema.Schema{port, object}}}
	}
	return nil
}
