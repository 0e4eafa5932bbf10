package aclfile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// ksmColumns are those of kafka-security-manager. PatternType is missing in files from before its version 0.4.
func ksmColumns() []string {
	return []string{"KafkaPrincipal", "ResourceType", "PatternType", "ResourceName", "Operation", "PermissionType", "Host"}
}

// ksm reads a CSV file with a header, its columns in any order, separated by what follows the first one's name.
func (p *reading) ksm(text []byte) {
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord = -1
	r.ReuseRecord = true
	header, _, _ := bytes.Cut(text, []byte("\n"))
	for _, separator := range []rune{';', '|', '\t'} {
		if bytes.ContainsRune(header, separator) && !bytes.ContainsRune(header, ',') {
			r.Comma = separator
		}
	}
	var columns []int // of ksmColumns, where they are; -1 is missing
	width := 0
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if wrong, ok := errors.AsType[*csv.ParseError](err); ok {
			p.problem(wrong.StartLine, "column %d: %v", wrong.Column, wrong.Err)
			return // what follows a quote that is not closed means nothing
		}
		line, _ := r.FieldPos(0)
		if columns == nil {
			if columns = p.ksmHeader(line, fields); columns == nil {
				return
			}
			width = len(fields)
			continue
		}
		if len(fields) != width {
			p.problem(line, "has %d fields, the header has %d", len(fields), width)
			continue
		}
		field := func(i int) string {
			if columns[i] < 0 {
				return acl.Literal.String()
			}
			return strings.Clone(fields[columns[i]])
		}
		p.add(line, row{principal: field(0), resourceType: field(1), patternType: field(2), name: field(3), operation: field(4), permission: field(5), host: field(6)})
	}
	if columns == nil {
		p.problem(1, "has no header %s", strings.Join(ksmColumns(), ","))
	}
}

func (p *reading) ksmHeader(line int, fields []string) []int {
	var columns []int
	known := 0
	for _, name := range ksmColumns() {
		i := slices.IndexFunc(fields, func(f string) bool { return strings.EqualFold(strings.TrimSpace(f), name) })
		if i < 0 && name != "PatternType" {
			p.problem(line, "the header has no column %s: want %s", name, strings.Join(ksmColumns(), ","))
		}
		if i >= 0 {
			known++
		}
		columns = append(columns, i)
	}
	if known != len(fields) {
		p.problem(line, "the header has columns that are none of %s", strings.Join(ksmColumns(), ","))
	}
	if len(p.problems) > 0 {
		return nil
	}
	return columns
}

func ksmFields(b acl.Binding) []string {
	return []string{b.Principal, camel(b.Type.String()), b.Kind.String(), b.Name, camel(b.Operation.String()), camel(b.Permission.String()), b.Host}
}

func writeKSM(w io.Writer, rules []acl.Binding) error {
	out := csv.NewWriter(w)
	_ = out.Write(ksmColumns()) // Error has it
	for _, b := range rules {
		_ = out.Write(ksmFields(b))
	}
	out.Flush()
	return out.Error()
}
