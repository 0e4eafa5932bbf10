package aclfile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// jsonRow is a rule of the format jsonl.
type jsonRow struct {
	ResourceType string `json:"resourceType"`
	Name         string `json:"name"`
	PatternType  string `json:"patternType"`
	Principal    string `json:"principal"`
	Host         string `json:"host"`
	Operation    string `json:"operation"`
	Permission   string `json:"permissionType"`
}

// jsonLines reads objects one after the other, or an array of them.
func (p *reading) jsonLines(text []byte) {
	at := lines{text: text}
	if trimmed := bytes.TrimLeft(text, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '[' {
		start := len(text) - len(trimmed)
		if err := elements(trimmed, start, func(object []byte, start int) { p.jsonRow(at.of(start), object) }); err != nil {
			p.problem(at.of(err.at), "%v", err)
		}
		return
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) > 0 {
			p.jsonRow(number, line)
		}
	}
}

func (p *reading) jsonRow(line int, object []byte) {
	d := json.NewDecoder(bytes.NewReader(object))
	d.DisallowUnknownFields()
	var r jsonRow
	if err := d.Decode(&r); err != nil {
		p.problem(line, "%v", err)
		return
	}
	if d.More() {
		p.problem(line, "has more than one object")
		return
	}
	p.add(line, row{r.ResourceType, r.Name, r.PatternType, r.Principal, r.Host, r.Operation, r.Permission})
}

func writeJSONLines(w io.Writer, rules []acl.Binding) error {
	out := bufio.NewWriter(w)
	for _, b := range rules {
		r := jsonRow{b.Type.String(), b.Name, b.Kind.String(), b.Principal, b.Host, b.Operation.String(), b.Permission.String()}
		if err := encode(out, r, ""); err != nil {
			return err
		}
	}
	return out.Flush()
}

// encode writes a document, a line at its end. What steers a terminal is escaped, which means the same.
func encode(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(EscapeJSON(b.Bytes()))
	return err
}

// EscapeJSON escapes what is beyond ASCII and not printable: encoding/json leaves it as it is, and there are control characters
// among it that a terminal obeys. In a document it can only be inside of a string.
func EscapeJSON(doc []byte) []byte {
	steers := func(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }
	if bytes.IndexFunc(doc, steers) < 0 {
		return doc
	}
	var out []byte
	for _, r := range string(doc) {
		if !steers(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			out = fmt.Appendf(out, `\u%04x`, unit)
		}
	}
	return out
}

// syntaxError is a place in a document that is no JSON, or not of the kind that stands there.
type syntaxError struct {
	at  int
	why error
}

func (e *syntaxError) Error() string { return e.why.Error() }

func (e *syntaxError) Unwrap() error { return e.why }

func syntaxAt(start int, d *json.Decoder, err error) *syntaxError {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		return &syntaxError{start + int(s.Offset), err}
	}
	return &syntaxError{start + int(d.InputOffset()), err}
}

// elements calls f with each element of the array that text is, and where it starts; start is where text does.
func elements(text []byte, start int, f func([]byte, int)) *syntaxError {
	return parts(text, start, '[', func(_ string, part []byte, at int) { f(part, at) })
}

// members calls f with each member of the object that text is.
func members(text []byte, start int, f func(string, []byte, int)) *syntaxError {
	return parts(text, start, '{', f)
}

func parts(text []byte, start int, kind json.Delim, f func(string, []byte, int)) *syntaxError {
	d := json.NewDecoder(bytes.NewReader(text))
	token, err := d.Token()
	if err != nil {
		return syntaxAt(start, d, err)
	}
	if token != kind {
		return &syntaxError{start, fmt.Errorf("want %v", kind)}
	}
	for d.More() {
		key := ""
		if kind == '{' {
			if token, err = d.Token(); err != nil {
				return syntaxAt(start, d, err)
			}
			key, _ = token.(string)
		}
		var part json.RawMessage
		if err = d.Decode(&part); err != nil {
			return syntaxAt(start, d, err)
		}
		f(key, part, start+int(d.InputOffset())-len(part))
	}
	if _, err = d.Token(); err != nil {
		return syntaxAt(start, d, err)
	}
	if _, err = d.Token(); !errors.Is(err, io.EOF) {
		return &syntaxError{start + int(d.InputOffset()), errors.New("something follows the document")}
	}
	return nil
}

// lines tells the line of an offset; it is asked in rising order, mostly.
type lines struct {
	text     []byte
	at, line int
}

func (l *lines) of(offset int) int {
	offset = min(offset, len(l.text))
	if offset < l.at {
		l.at, l.line = 0, 0
	}
	l.line += bytes.Count(l.text[l.at:offset], []byte("\n"))
	l.at = offset
	return l.line + 1
}
