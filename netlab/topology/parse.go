package topology

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Limits that keep a hostile file from costing more than it weighs.
const (
	maxFile  = 512 << 10 // bytes
	maxLines = 10_000    // of the file: the YAML parser takes time with the square of a mapping
	maxDepth = 16        // nesting of what is decoded; a lab file needs 4
	maxOpen  = 64        // nesting of what the YAML parser gets, which takes time with the square of it
)

// Load reads and resolves the lab file at path. A wrong file gives [InvalidError].
func Load(path string) (*Lab, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read lab file: %w", err)
	}
	return Parse(path, text)
}

// Parse reads and resolves the text of a lab file; path names it in problems, and files it names are relative to its
// folder. A wrong text gives [InvalidError].
func Parse(path string, text []byte) (*Lab, error) {
	file, r := read(path, text)
	if len(r.problems) > 0 && file == nil {
		return nil, r.err()
	}
	lab := file.resolve(r, filepath.Dir(path))
	if err := r.err(); err != nil {
		return nil, err
	}
	return lab, nil
}

// read makes a File of the text. It is nil when the text is no YAML mapping at all.
func read(path string, text []byte) (*File, *report) {
	r := &report{file: path, places: map[string]place{"": {1, 1}}}
	if len(text) > maxFile {
		r.at("", "is %d bytes long: a lab file has at most %d", len(text), maxFile)
		return nil, r
	}
	if lines := bytes.Count(text, []byte{'\n'}); lines > maxLines {
		r.at("", "has %d lines: a lab file has at most %d", lines, maxLines)
		return nil, r
	}
	if !utf8.Valid(text) {
		r.at("", "is not UTF-8 text")
		return nil, r
	}
	if line := tooDeep(text); line > 0 {
		r.places["deep"] = place{line, 1}
		r.at("deep", "is nested more than %d deep", maxOpen)
		return nil, r
	}
	root, err := parseYAML(text)
	if err != nil {
		r.syntax(err)
		return nil, r
	}
	if root == nil {
		r.at("", "is empty: want at least a name and a node or subnet")
		return nil, r
	}
	var file File
	d := decoder{report: r}
	d.value("", root, reflect.ValueOf(&file).Elem(), 0)
	r.unread = d.unreadable
	return &file, r
}

// tooDeep gives the line where more brackets are open, or more list items begin, than any lab file has; 0 if none. It
// does not know quotes, so it counts a few brackets too many.
func tooDeep(text []byte) int {
	line, open, dashes := 1, 0, 0
	for i, c := range text {
		switch c {
		case '[', '{':
			open++
		case ']', '}':
			open = max(open-1, 0)
		case '-':
			if i+1 < len(text) && (text[i+1] == ' ' || text[i+1] == '\t') {
				dashes++
			}
		case '\n':
			line, dashes = line+1, 0
		}
		if open > maxOpen || dashes > maxOpen {
			return line
		}
	}
	return 0
}

// parseYAML gives the one document of the text. A panic of the parser is an error like another: it is someone
// else's code, fed with anyone's file.
func parseYAML(text []byte) (root ast.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("is no YAML that can be read (%v)", p)
		}
	}()
	parsed, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey()) // duplicates are reported with all the rest
	if err != nil {
		return nil, err
	}
	for _, doc := range parsed.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType {
			continue
		}
		if root != nil {
			return nil, errors.New("has more than one YAML document")
		}
		root = doc.Body
	}
	return root, nil
}

// syntax reports an error of the YAML parser at its own place.
func (r *report) syntax(err error) {
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil && at.GetToken().Position != nil {
		p := at.GetToken().Position
		r.places["syntax"] = place{max(p.Line, 1), max(p.Column, 1)}
		r.at("syntax", "%s", at.GetMessage())
		return
	}
	r.at("", "%s", strings.SplitN(err.Error(), "\n", 2)[0])
}

// decoder fills a File from YAML nodes. It notes where each thing stands and goes on after a problem.
type decoder struct {
	*report
	unreadable []string // paths of values that could not be read
}

// bad reports a value that cannot be read.
func (d *decoder) bad(path, format string, args ...any) {
	d.at(path, format, args...)
	d.unreadable = append(d.unreadable, path)
}

func (d *decoder) place(path string, n ast.Node) {
	if _, known := d.places[path]; known {
		return // the key's place, which is the better one
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		d.places[path] = place{max(t.Position.Line, 1), max(t.Position.Column, 1)}
	}
}

// value decodes n into to, whose type says what is wanted.
func (d *decoder) value(path string, n ast.Node, to reflect.Value, depth int) {
	d.place(path, n)
	if depth > maxDepth {
		d.bad(path, "is nested more than %d deep", maxDepth)
		return
	}
	switch n.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		d.bad(path, "anchors and aliases are not supported: write the value out")
		return
	case *ast.TagNode:
		d.bad(path, "tags are not supported")
		return
	case *ast.NullNode:
		if to.Kind() != reflect.String && to.Kind() != reflect.Struct {
			d.bad(path, "has no value")
		}
		return
	}
	switch to.Kind() {
	case reflect.Struct:
		d.object(path, n, to, depth)
	case reflect.Map:
		d.mapping(path, n, to, depth)
	case reflect.Slice:
		d.list(path, n, to, depth)
	default:
		d.scalar(path, n, to)
	}
}

// object decodes a mapping with known keys.
func (d *decoder) object(path string, n ast.Node, to reflect.Value, depth int) {
	entries, ok := d.entries(path, n)
	if !ok {
		if to.Type() == reflect.TypeFor[FileExpose]() { // a bare number is a port
			d.value(path, n, to.FieldByName("Port"), depth+1)
			return
		}
		d.bad(path, "is %s: want a mapping", kindOf(n))
		return
	}
	fields := map[string]reflect.Value{}
	for i := range to.NumField() {
		key, _, _ := strings.Cut(to.Type().Field(i).Tag.Get("json"), ",")
		fields[key] = to.Field(i)
	}
	for _, e := range entries {
		field, known := fields[e.key]
		if !known {
			d.at(e.path, "unknown key %q%s", e.key, nearest(e.key, slices.Collect(maps.Keys(fields))))
			continue
		}
		d.value(e.path, e.value, field, depth+1)
	}
}

// mapping decodes a mapping with free keys.
func (d *decoder) mapping(path string, n ast.Node, to reflect.Value, depth int) {
	entries, ok := d.entries(path, n)
	if !ok {
		d.bad(path, "is %s: want a mapping", kindOf(n))
		return
	}
	to.Set(reflect.MakeMap(to.Type()))
	for _, e := range entries {
		v := reflect.New(to.Type().Elem()).Elem()
		d.value(e.path, e.value, v, depth+1)
		to.SetMapIndex(reflect.ValueOf(e.key), v)
	}
}

// list decodes a sequence; Strings and Ints take a single scalar too.
func (d *decoder) list(path string, n ast.Node, to reflect.Value, depth int) {
	sequence, ok := n.(*ast.SequenceNode)
	if !ok {
		_, scalar := n.(ast.ScalarNode)
		if !scalar || (to.Type() != reflect.TypeFor[Strings]() && to.Type() != reflect.TypeFor[Ints]()) {
			d.bad(path, "is %s: want a list", kindOf(n))
			return
		}
		to.Set(reflect.MakeSlice(to.Type(), 1, 1))
		d.value(path, n, to.Index(0), depth+1)
		return
	}
	to.Set(reflect.MakeSlice(to.Type(), len(sequence.Values), len(sequence.Values)))
	for i, item := range sequence.Values {
		d.value(fmt.Sprintf("%s[%d]", path, i), item, to.Index(i), depth+1)
	}
}

// scalar decodes text, a number or a port.
func (d *decoder) scalar(path string, n ast.Node, to reflect.Value) {
	if sequence, ok := n.(*ast.SequenceNode); ok && to.Type() == reflect.TypeFor[Text]() {
		var items Strings
		d.list(path, sequence, reflect.ValueOf(&items).Elem(), 0)
		to.SetString(strings.Join(items, ","))
		return
	}
	if _, ok := n.(ast.ScalarNode); !ok {
		hint := ""
		if strings.Contains(n.String(), "::") || strings.Contains(n.String(), ": :") { // the YAML parser takes the colons for those of a mapping
			hint = " (an IPv6 address needs quotes here)"
		}
		d.bad(path, "is %s: want a single value%s", kindOf(n), hint)
		return
	}
	text := scalarText(n)
	switch to.Kind() {
	case reflect.String:
		if strings.ContainsRune(text, 0) {
			d.bad(path, "contains a zero byte")
			return
		}
		to.SetString(text)
	case reflect.Int:
		i, err := strconv.Atoi(text)
		if err != nil {
			d.bad(path, "%q is not a whole number", text)
			return
		}
		to.SetInt(int64(i))
	case reflect.Uint16:
		port, err := parsePort(text)
		if err != nil {
			d.bad(path, "%v", err)
			return
		}
		to.SetUint(uint64(port))
	default:
		d.bad(path, "cannot be set from a file")
	}
}

// entry is one key of a mapping.
type entry struct {
	key, path string
	value     ast.Node
}

// entries gives the keys of a mapping in order, without those that were there before, which are problems.
func (d *decoder) entries(path string, n ast.Node) ([]entry, bool) {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		return nil, false
	}
	var entries []entry
	seen := map[string]bool{}
	for _, v := range values {
		key := ""
		scalar, ok := v.Key.(ast.ScalarNode)
		if ok {
			key = scalarText(scalar)
		}
		at := path + "." + key
		if path == "" {
			at = key
		}
		switch {
		case v.Key.IsMergeKey():
			d.place(at, v.Key)
			d.at(at, "merge keys (<<) are not supported: write the values out")
			continue
		case !ok || v.Value == nil:
			d.place(at, v.Key)
			d.at(at, "is no key with a value")
			continue
		case seen[key]:
			was := d.places[at]
			if t := v.Key.GetToken(); t != nil && t.Position != nil {
				d.places[at] = place{t.Position.Line, t.Position.Column}
			}
			d.at(at, "%q is here twice: it was set in line %d", key, was.line)
			d.places[at] = was
			continue
		}
		seen[key] = true
		d.place(at, v.Key)
		entries = append(entries, entry{key, at, v.Value})
	}
	return entries, true
}

// scalarText is a scalar as it was written, without quotes.
func scalarText(n ast.Node) string {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value
	case *ast.LiteralNode:
		if s.Value != nil {
			return s.Value.Value
		}
		return ""
	case *ast.NullNode:
		return ""
	}
	if t := n.GetToken(); t != nil {
		return t.Value
	}
	return ""
}

// kindOf names what n is, in words of a person.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case ast.ScalarNode:
		return fmt.Sprintf("%q", scalarText(n))
	}
	return "something else"
}

// nearest suggests the known word that was probably meant, or lists them all.
func nearest(word string, known []string) string {
	slices.Sort(known)
	best, distance := "", len(word)/2+1
	for _, k := range known {
		if n := levenshtein.ComputeDistance(word, k); n < distance {
			best, distance = k, n
		}
	}
	if best == "" {
		return ": known are " + strings.Join(known, ", ")
	}
	return fmt.Sprintf(": did you mean %q?", best)
}
