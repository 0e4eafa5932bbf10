package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
)

// messages is package protocol as its sources have it.
type messages struct {
	docs    map[string]string            // of each struct
	notes   map[string]map[string]string // of each field of each struct
	types   map[string]map[string]string // the same, where a field is a struct of the package
	methods map[string]*ast.FuncDecl     // the method fields of each struct
}

func readMessages(root string) (*messages, error) {
	m := &messages{docs: map[string]string{}, notes: map[string]map[string]string{}, types: map[string]map[string]string{}, methods: map[string]*ast.FuncDecl{}}
	files, err := filepath.Glob(filepath.Join(root, "broker", "protocol", "*.go"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range parsed.Decls {
			m.take(d)
		}
	}
	return m, nil
}

func (m *messages) take(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.Name == "fields" && d.Recv != nil {
			if star, ok := d.Recv.List[0].Type.(*ast.StarExpr); ok {
				m.methods[nameOf(star.X)] = d
			}
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if t, ok := spec.(*ast.TypeSpec); ok {
				if s, ok := t.Type.(*ast.StructType); ok {
					m.takeStruct(t.Name.Name, d.Doc.Text(), s)
				}
			}
		}
	}
}

func (m *messages) takeStruct(name, doc string, s *ast.StructType) {
	m.docs[name], m.notes[name], m.types[name] = plain(doc), map[string]string{}, map[string]string{}
	for _, f := range s.Fields.List {
		note := strings.TrimSpace(plain(f.Doc.Text()) + " " + plain(f.Comment.Text()))
		for _, n := range f.Names {
			m.notes[name][n.Name], m.types[name][n.Name] = note, nameOf(f.Type)
		}
	}
}

// plain is a comment as one line, without its links and in the protocol's words.
func plain(text string) string {
	text = regexp.MustCompile(`\bnil\b`).ReplaceAllString(text, "null")
	text = regexp.MustCompile(`\[(\w[\w.]*)\]`).ReplaceAllString(text, "$1")
	return strings.Join(strings.Fields(text), " ")
}

func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// describe writes the part of the page that shows the request and the response of a.
func (m *messages) describe(b *strings.Builder, a *api) error {
	fmt.Fprintf(b, "\n### %s, key %d\n\n%s\n\n- Versions: %s\n- Needs: %s\n- Errors: %s\n",
		a.name, a.key, upperFirst(a.does)+".", a.versions, a.needs, a.errors)
	for _, of := range []string{"Request", "Response"} {
		name := a.name + of
		if m.docs[name] == "" {
			return fmt.Errorf("package protocol has no documented struct %s", name)
		}
		fmt.Fprintf(b, "\n**%s.** %s\n\n| field | type | what |\n|---|---|---|\n", of, upperFirst(strings.TrimPrefix(strings.TrimPrefix(m.docs[name], name+" "), "is ")))
		if err := m.rows(b, name, 0); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// rows writes the fields of a struct in wire order, those of the structs in it indented below their field.
func (m *messages) rows(b *strings.Builder, name string, depth int) error {
	method := m.methods[name]
	if method == nil {
		return errors.New("it has no method fields")
	}
	for _, statement := range method.Body.List {
		field, wire, inner := step(statement)
		if wire == "tags" {
			continue
		}
		if wire == "struct" {
			inner = m.types[name][field]
		}
		note := m.notes[name][field]
		if inner != "" && note == "" {
			note = m.about(inner)
		}
		if field == "" || wire == "" || note == "" {
			return fmt.Errorf("of field %q (%s) of %s it is not known what travels or what it means", field, wire, name)
		}
		fmt.Fprintf(b, "| %s`%s` | %s | %s |\n", strings.Repeat("&emsp;", depth), field, wire, cell(note))
		if inner == "" {
			continue
		}
		if err := m.rows(b, inner, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// about is the doc of a struct without its name.
func (m *messages) about(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(m.docs[name], name+" "), "is "), ".")
}

// step reads one statement of a method fields: the field, how it travels, and the struct inside it, if there is one.
func step(s ast.Stmt) (field, wire, inner string) {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return "", "", ""
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok {
		return "", "", ""
	}
	verb := nameOf(call.Fun)
	types := map[string]string{
		"bool": "bool", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64", "uint64": "uint64", "float64": "float64", "string": "string",
		"nullableString": "string or null", "nullableBytes": "bytes or null", "tags": "tags", "array": "[]", "nullable": "struct or absent",
	}
	if verb == "fields" { // a struct inside
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
			return nameOf(sel.X), "struct", ""
		}
	}
	for _, arg := range call.Args {
		switch arg := arg.(type) {
		case *ast.UnaryExpr: // where the field is
			field = nameOf(arg.X)
		case *ast.Ident: // a function for elements that are no structs
			if arg.Name == "stringField" {
				return field, "[]string", ""
			}
		case *ast.SelectorExpr: // the method of the struct inside
			if paren, ok := arg.X.(*ast.ParenExpr); ok {
				if star, ok := paren.X.(*ast.StarExpr); ok {
					inner = nameOf(star.X)
				}
			}
		}
	}
	return field, types[verb], inner
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
