package aclfile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// Bounds of what the YAML parser gets, which takes time with the square of a document and of its nesting.
const (
	maxYAML     = 64 << 20  // bytes of all documents
	maxDocument = 512 << 10 // bytes of one
	maxLines    = 10_000    // of one
	maxNesting  = 64
)

// strimzi reads the KafkaUser resources of a file, one a document or in a list; other kinds are left out. A user's principal
// is User:CN=name if it has certificates, else User:name (KafkaUserModel.getUserName).
func (p *reading) strimzi(text []byte) {
	if len(text) > maxYAML {
		p.problem(1, "has more than %d bytes", maxYAML)
		return
	}
	var document []byte
	first, number := 1, 0
	for line := range bytes.Lines(text) {
		number++
		if bytes.Equal(bytes.TrimRight(line, " \t\r\n"), []byte("---")) || bytes.HasPrefix(line, []byte("--- ")) {
			p.document(document, first)
			document, first = nil, number+1
			continue
		}
		document = append(document, line...)
	}
	p.document(document, first)
}

func (p *reading) document(text []byte, first int) {
	if len(bytes.TrimSpace(text)) == 0 {
		return
	}
	if len(text) > maxDocument || bytes.Count(text, []byte("\n")) > maxLines {
		p.problem(first, "a document has more than %d bytes or %d lines", maxDocument, maxLines)
		return
	}
	if nested(text) {
		p.problem(first, "a document is nested more than %d deep", maxNesting)
		return
	}
	root, err := parse(text)
	if err != nil {
		line, reason := first, err.Error()
		if s, ok := errors.AsType[*yaml.SyntaxError](err); ok {
			reason = s.GetMessage()
			if s.GetToken() != nil && s.GetToken().Position != nil {
				line += s.GetToken().Position.Line - 1
			}
		}
		p.problem(line, "%s", reason)
		return
	}
	d := &strimziDocument{p, first}
	d.resource(root)
}

// nested tells whether more brackets are open, or more list items begin on a line, or a line is indented more than any
// KafkaUser needs.
func nested(text []byte) bool {
	open := 0
	for line := range bytes.Lines(text) {
		indent := len(line) - len(bytes.TrimLeft(line, " -?:\t"))
		if indent > 4*maxNesting || bytes.Count(line[:indent], []byte("-")) > maxNesting || bytes.Count(line, []byte(": ")) > maxNesting || bytes.Count(line, []byte("? ")) > maxNesting {
			return true
		}
		for _, c := range line {
			switch c {
			case '[', '{':
				open++
			case ']', '}':
				open = max(open-1, 0)
			}
			if open > maxNesting {
				return true
			}
		}
	}
	return false
}

// parse gives a document's root, nil if it is empty. The parser is someone else's and gets anyone's file: its panic is an
// error like another.
func parse(text []byte) (root ast.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("is no YAML that can be read (%v)", r)
		}
	}()
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, err
	}
	switch len(file.Docs) {
	case 0:
		return nil, nil
	case 1:
	default: // what follows would be lost
		return nil, errors.New("another document begins without ---")
	}
	return file.Docs[0].Body, nil
}

// strimziDocument reads one document, which begins on a line of the file.
type strimziDocument struct {
	*reading

	first int
}

func (d *strimziDocument) line(n ast.Node) int {
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return d.first
	}
	return d.first + n.GetToken().Position.Line - 1
}

// fields are the members of a mapping; nil, with a problem, of anything else.
func (d *strimziDocument) fields(what string, n ast.Node) map[string]ast.Node {
	var pairs []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		d.problem(d.line(n), "%s: want a mapping", what)
		return nil
	}
	all := map[string]ast.Node{}
	for _, pair := range pairs {
		if _, merge := pair.Key.(*ast.MergeKeyNode); merge {
			d.problem(d.line(pair), "%s: what << merges in is not read", what)
		}
		key, _ := scalar(pair.Key)
		if _, twice := all[key]; twice {
			d.problem(d.line(pair), "%s: %q is there twice", what, shorten(key))
		}
		all[key] = pair.Value
	}
	return all
}

// only refuses fields that would be lost.
func (d *strimziDocument) only(what string, fields map[string]ast.Node, names ...string) {
	for key, n := range fields {
		if !slices.Contains(names, key) {
			d.problem(d.line(n), "%s: unknown field %q: one of %s", what, shorten(key), strings.Join(names, ", "))
		}
	}
}

func scalar(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// text is a field's text, or what it is without one.
func (d *strimziDocument) text(what string, fields map[string]ast.Node, key, otherwise string) string {
	n, ok := fields[key]
	if !ok {
		return otherwise
	}
	if _, null := n.(*ast.NullNode); null {
		return otherwise
	}
	text, ok := scalar(n)
	if !ok {
		d.problem(d.line(n), "%s: %s: want text", what, key)
	}
	return text
}

func (d *strimziDocument) list(what string, n ast.Node) []ast.Node {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.problem(d.line(n), "%s: want a list", what)
		return nil
	}
	return seq.Values
}

func (d *strimziDocument) resource(n ast.Node) {
	if n == nil {
		return
	}
	if _, comment := n.(*ast.CommentGroupNode); comment {
		return
	}
	fields := d.fields("resource", n)
	if fields == nil {
		return
	}
	if items, ok := fields["items"]; ok {
		for _, item := range d.list("items", items) {
			d.resource(item)
		}
		return
	}
	if d.text("resource", fields, "kind", "") == "KafkaUser" {
		d.user(n, fields)
	}
}

func (d *strimziDocument) user(at ast.Node, fields map[string]ast.Node) {
	name := ""
	if metadata, ok := fields["metadata"]; ok {
		name = d.text("metadata", d.fields("metadata", metadata), "name", "")
	}
	if name == "" {
		d.problem(d.line(at), "KafkaUser: want metadata.name")
		return
	}
	if _, ok := fields["spec"]; !ok {
		return
	}
	spec := d.fields("spec", fields["spec"])
	principal := "User:" + name
	if n, ok := spec["authentication"]; ok {
		switch kind := d.text("authentication", d.fields("authentication", n), "type", ""); kind {
		case "tls", "tls-external":
			principal = "User:CN=" + name
		case "scram-sha-512":
		default:
			d.problem(d.line(n), "authentication: unknown type %q: one of tls, tls-external, scram-sha-512", shorten(kind))
		}
	}
	n, ok := spec["authorization"]
	if !ok {
		return
	}
	authorization := d.fields("authorization", n)
	if kind := d.text("authorization", authorization, "type", ""); kind != "simple" {
		d.problem(d.line(n), "authorization: unknown type %q: only simple has rules", shorten(kind))
		return
	}
	acls, ok := authorization["acls"]
	if !ok {
		return
	}
	for _, rule := range d.list("acls", acls) {
		d.rule(principal, rule)
	}
}

func (d *strimziDocument) rule(principal string, n ast.Node) {
	fields := d.fields("acl", n)
	if fields == nil {
		return
	}
	d.only("acl", fields, "type", "resource", "host", "operation", "operations")
	r := row{principal: principal, host: d.text("acl", fields, "host", acl.AnyHost), permission: d.text("acl", fields, "type", "allow")}
	if fields["resource"] == nil {
		d.problem(d.line(n), "acl: want a resource")
		return
	}
	resource := d.fields("resource", fields["resource"])
	d.only("resource", resource, "type", "name", "patternType")
	r.resourceType = d.text("resource", resource, "type", "")
	r.name = d.text("resource", resource, "name", "")
	if strings.EqualFold(r.resourceType, "cluster") && r.name == "" {
		r.name = acl.ClusterName
	}
	r.patternType = d.text("resource", resource, "patternType", "literal")
	if r.patternType == "prefix" {
		r.patternType = "prefixed"
	}
	var operations []string
	if _, ok := fields["operation"]; ok {
		operations = append(operations, d.text("acl", fields, "operation", ""))
	}
	if list, ok := fields["operations"]; ok {
		for _, op := range d.list("operations", list) {
			text, ok := scalar(op)
			if !ok {
				d.problem(d.line(op), "operations: want text")
			}
			operations = append(operations, text)
		}
	}
	if len(operations) == 0 {
		d.problem(d.line(n), "acl: want operations")
	}
	for _, op := range operations {
		r.operation = op
		d.add(d.line(n), r)
	}
}

func unkeptByStrimzi(b acl.Binding) string {
	kind, name, _ := acl.SplitPrincipal(b.Principal)
	name = strings.TrimPrefix(name, "CN=")
	switch {
	case kind != "User":
		return "a KafkaUser's principal is of type User"
	case len(name) > 253 || !regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`).MatchString(name):
		return "a KafkaUser's name has small letters, digits, '-' and '.' only (and CN= before it)"
	case !slices.Contains([]acl.ResourceType{acl.Topic, acl.Group, acl.Cluster, acl.TransactionalID}, b.Type):
		return "a KafkaUser has no resource type " + b.Type.String()
	case b.Operation > acl.IdempotentWrite:
		return "a KafkaUser has no operation " + b.Operation.String()
	case b.Type == acl.Cluster && b.Kind != acl.Literal:
		return "a KafkaUser has no pattern type for the cluster"
	}
	return ""
}

// writeStrimzi writes a KafkaUser for each principal. How it authenticates is said of those with certificates only, for
// it tells their principal.
func writeStrimzi(w io.Writer, rules []acl.Binding) error {
	type entry struct {
		acl.Pattern

		host       string
		permission acl.Permission
	}
	out := bufio.NewWriter(w)
	users, of := grouped(rules, func(b acl.Binding) string { return b.Principal })
	for _, user := range users {
		name, certificate := strings.CutPrefix(strings.TrimPrefix(user, "User:"), "CN=")
		_, _ = fmt.Fprintf(out, "---\napiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaUser\nmetadata:\n  name: %s\nspec:\n", quoted(name)) // Flush has the error
		if certificate {
			_, _ = out.WriteString("  authentication:\n    type: tls-external\n")
		}
		_, _ = out.WriteString("  authorization:\n    type: simple\n    acls:\n")
		entries, its := grouped(of[user], func(b acl.Binding) entry { return entry{b.Pattern, b.Host, b.Permission} })
		for _, e := range entries {
			kind := e.Type.String()
			_, _ = fmt.Fprintf(out, "      - type: %s\n        host: %s\n        resource:\n          type: %s\n",
				strings.ToLower(e.permission.String()), quoted(e.host), strings.ToLower(kind[:1])+camel(kind)[1:])
			if e.Type != acl.Cluster {
				pattern := "literal"
				if e.Kind == acl.Prefixed {
					pattern = "prefix"
				}
				_, _ = fmt.Fprintf(out, "          name: %s\n          patternType: %s\n", quoted(e.Name), pattern)
			}
			_, _ = out.WriteString("        operations:\n")
			for _, b := range its[e] {
				_, _ = fmt.Fprintf(out, "          - %s\n", camel(b.Operation.String()))
			}
		}
	}
	return out.Flush()
}

// quoted is a text in double quotes, as JSON and YAML both have it.
func quoted(text string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		return `""`
	}
	return string(EscapeJSON(bytes.TrimSpace(b.Bytes())))
}
