package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

// api is what the contract of one NN_name.go says.
type api struct {
	key      int16
	name     string
	does     string
	versions string
	needs    string
	errors   string // of ours alone
	differs  string
}

// ours tells whether the message is none that Kafka has.
func (a *api) ours() bool {
	_, ok := protocol.DefaultKeys().Names()[a.key]
	return ok
}

// readContracts reads the contracts, in the order of their keys.
func readContracts(root string) ([]api, error) {
	files, err := filepath.Glob(filepath.Join(root, "broker", "internal", "api", "[0-9]*_*.go"))
	if err != nil {
		return nil, err
	}
	var all []api
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		a, err := readContract(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b api) int { return cmp.Compare(a.key, b.key) })
	return all, nil
}

func readContract(file string) (api, error) {
	number, _, _ := strings.Cut(filepath.Base(file), "_")
	key, err := strconv.ParseInt(number, 10, 16)
	if err != nil {
		return api{}, err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return api{}, err
	}
	a := api{key: int16(key), name: kmsg.NameForKey(int16(key))}
	if own, ok := protocol.DefaultKeys().Names()[a.key]; ok {
		a.name = own
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || !strings.Contains(f.Doc.Text(), "\nVersions: ") {
			continue
		}
		a.read(f.Name.Name, f.Doc.Text())
	}
	if a.does == "" || a.versions == "" || a.needs == "" || a.differs == "" {
		return api{}, fmt.Errorf("its contract says %+v: there must be what it does, Versions, Needs and Differs from Kafka", a)
	}
	if a.ours() {
		for _, name := range errorNames(parsed) {
			if !strings.Contains(a.errors, name) {
				return api{}, fmt.Errorf("it answers %s, which Errors does not name: %q", name, a.errors)
			}
		}
	}
	return a, nil
}

// read takes the parts of a contract out of its text.
func (a *api) read(function, text string) {
	about, rest, _ := strings.Cut(text, "\nVersions: ")
	a.does = strings.TrimSuffix(strings.Join(strings.Fields(strings.TrimPrefix(about, function+" ")), " "), ".")
	parts := map[string]*string{"Versions": &a.versions, "Needs": &a.needs, "Errors": &a.errors, "Differs from Kafka": &a.differs}
	var at *string
	for line := range strings.SplitSeq("Versions: "+rest, "\n") {
		if heading, value, ok := strings.Cut(line, ": "); ok && parts[heading] != nil {
			at, line = parts[heading], value
		}
		*at = strings.TrimSpace(*at + " " + line)
	}
	a.versions = strings.TrimSuffix(a.versions, ".")
}

// errorNames are Kafka's names of the errors that a file uses.
func errorNames(file *ast.File) []string {
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "kerr" && sel.Sel.Name != "Error" {
			names = append(names, kafkaName(sel.Sel.Name))
		}
		return true
	})
	return names
}

// kafkaName is InvalidRequest as INVALID_REQUEST.
func kafkaName(camel string) string {
	var b strings.Builder
	for i, r := range camel {
		if i > 0 && unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToUpper(r))
	}
	return b.String()
}

const intro = `# Requests

Printed from the code by ` + "`make docs`" + `.

The APIs that a broker serves, with the versions it serves at most and what a client needs. What ApiVersions answers is what counts. A
permission is asked for only where ` + "`authorizer.class.name`" + ` is set; its words are those of ` + "`brokerlab acls`" + ` and kafka-acls.sh. A request that
lacks one is answered as Kafka answers it: by an error for the resource it names, or by leaving the resource out.

| key | API | versions | what it does | needs |
|---|---|---|---|---|
`

// writeTables writes the page up to the schemas.
func writeTables(b *strings.Builder, apis []api) {
	b.WriteString(intro)
	for i := range apis {
		a := &apis[i]
		name := a.name
		if a.ours() {
			name = fmt.Sprintf("[%s](#%s-key-%d)", name, strings.ToLower(name), a.key)
		}
		fmt.Fprintf(b, "| %d | %s | %s | %s | %s |\n", a.key, name, a.versions, cell(a.does), cell(strings.TrimSuffix(a.needs, ".")))
	}
	b.WriteString("\n## How they differ from Kafka's\n\nThose that are not named here are not known to differ; [differences.md](differences.md) " +
		"tells of the broker as a whole.\n\n| API | difference |\n|---|---|\n")
	for i := range apis {
		a := &apis[i]
		if text := strings.TrimSpace(strings.TrimPrefix(a.differs, "nothing known.")); text != "" && !a.ours() {
			fmt.Fprintf(b, "| %s | %s |\n", a.name, cell(text))
		}
	}
	b.WriteString(schemas)
}

const schemas = `
## The requests that Kafka has not

Key 93 is that of KIP-1329; ` + "`list.client.connections.api.key`" + ` moves it. The others are brokerlab's own, and
` + "`brokerlab.apis.enable=false`" + ` takes them away. All are flexible (header version 2, compact lengths), and end, as each struct in them does, in
tagged fields, of which none is defined. Go programs call them by ` + "`broker/admin`" + `; others can write and read them by these tables.

Types: intN is big-endian; an uint64 travels as the int64 of the same bits; string and bytes have a compact length before them, and may be
null where it says so; ` + "`[]`" + ` is an array, its fields below it, indented; a struct that may be absent has one byte before it, -1 (absent) or 1.
Besides the errors that are named, a version that is not served is answered as Kafka answers it, and the authorizer's refusal is
CLUSTER_AUTHORIZATION_FAILED (31).
`

// cell is text inside a table.
func cell(text string) string { return regexp.MustCompile(`\|`).ReplaceAllString(text, `\|`) }
