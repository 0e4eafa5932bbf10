package aclfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// Format is a kind of file.
type Format string

// The formats.
const (
	KafkaACLs Format = "kafka-acls" // what kafka-acls.sh --list prints
	Strimzi   Format = "strimzi"    // KafkaUser resources of Strimzi, YAML
	KSM       Format = "ksm-csv"    // the CSV file of kafka-security-manager
	Terraform Format = "terraform"  // state, version 4, with the kafka_acl resources of Mongey/kafka
	JSONLines Format = "jsonl"      // brokerlab's own: an object a line
)

// Formats lists the formats.
func Formats() []Format { return []Format{KafkaACLs, Strimzi, KSM, Terraform, JSONLines} }

// ParseFormat reads the name of a format.
func ParseFormat(text string) (Format, error) {
	var names []string
	for _, f := range Formats() {
		if string(f) == text {
			return f, nil
		}
		names = append(names, string(f))
	}
	return "", fmt.Errorf("unknown format %q: one of %s", text, strings.Join(names, ", "))
}

// Entry is a rule and the line of the file on which it begins.
type Entry struct {
	acl.Binding

	Line int
}

// Bounds of a file: so much is read, and so many problems are listed.
const (
	maxFile     = 256 << 20
	maxProblems = 100
)

// Detect tells a file's format by its name and its first bytes, a few kilobytes at best.
func Detect(name string, head []byte) (Format, error) {
	head = bytes.TrimSpace(bytes.TrimPrefix(head, []byte(bom)))
	has := func(text string) bool { return bytes.Contains(head, []byte(text)) }
	first := byte(0)
	if len(head) > 0 {
		first = head[0]
	}
	extension := strings.ToLower(filepath.Ext(name))
	switch {
	case has("for resource `ResourcePattern("), has("ACLs for principal `"):
		return KafkaACLs, nil
	case first == '[':
		return JSONLines, nil
	case first == '{' && has(`"resourceType"`):
		return JSONLines, nil
	case first == '{' && (has(`"terraform_version"`) || has(`"resources"`) || has(`"lineage"`)):
		return Terraform, nil
	case bytes.HasPrefix(head, []byte("KafkaPrincipal")):
		return KSM, nil
	case has("kind: KafkaUser"):
		return Strimzi, nil
	}
	switch extension {
	case ".yaml", ".yml":
		return Strimzi, nil
	case ".csv":
		return KSM, nil
	case ".tfstate":
		return Terraform, nil
	case ".jsonl", ".ndjson":
		return JSONLines, nil
	case ".txt":
		return KafkaACLs, nil
	}
	return "", fmt.Errorf("%s: fits no format by its name and content: say which of %v it is", name, Formats())
}

// bom is what some editors put before a text.
const bom = "\ufeff"

// Read reads a file of a format; name is what its problems are named by. The error has every problem, each as name:line: text.
func Read(r io.Reader, name string, f Format) ([]Entry, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	p := &reading{name: name}
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: has more than %d bytes", name, maxFile)
	}
	text = bytes.TrimPrefix(text, []byte(bom))
	if !utf8.Valid(text) {
		p.problem(invalidAt(text), "is not UTF-8")
		return nil, p.err()
	}
	switch f {
	case KafkaACLs:
		p.kafkaACLs(string(text))
	case Strimzi:
		p.strimzi(text)
	case KSM:
		p.ksm(text)
	case Terraform:
		p.terraform(text)
	case JSONLines:
		p.jsonLines(text)
	default:
		_, err = ParseFormat(string(f))
		return nil, err
	}
	if problems := p.err(); problems != nil {
		return nil, problems
	}
	return p.entries, nil
}

func invalidAt(text []byte) (line int) {
	line = 1
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size <= 1 {
			break
		}
		if r == '\n' {
			line++
		}
		text = text[size:]
	}
	return line
}

// reading collects what is read from one file, and what is wrong with it.
type reading struct {
	name     string
	entries  []Entry
	problems []error
	more     int // problems beyond maxProblems
}

func (p *reading) problem(line int, format string, args ...any) {
	if len(p.problems) == maxProblems {
		p.more++
		return
	}
	p.problems = append(p.problems, fmt.Errorf("%s:%d: %s", p.name, line, fmt.Sprintf(format, args...)))
}

func (p *reading) err() error {
	if p.more > 0 {
		return errors.Join(errors.Join(p.problems...), fmt.Errorf("%s: and %d problems more", p.name, p.more))
	}
	return errors.Join(p.problems...)
}

// row is a rule as the formats have it: seven texts.
type row struct {
	resourceType, name, patternType, principal, host, operation, permission string
}

// binding makes a rule of texts, or all the reasons why they are none.
func (r row) binding() (acl.Binding, []error) {
	b := acl.Binding{Pattern: acl.Pattern{Name: r.name}, Principal: r.principal, Host: r.host}
	var problems []error
	note := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	var err error
	b.Type, err = acl.ParseResourceType(r.resourceType)
	note(err)
	b.Kind, err = acl.ParsePatternType(r.patternType)
	note(err)
	b.Operation, err = acl.ParseOperation(r.operation)
	note(err)
	b.Permission, err = acl.ParsePermission(r.permission)
	note(err)
	if len(problems) > 0 {
		return b, problems
	}
	return b, valid(b)
}

// valid says what no cluster would have taken. A range that does not parse may be in a cluster: older ones took any host.
func valid(b acl.Binding) []error {
	if acl.IsCIDR(b.Host) {
		b.Host = acl.AnyHost
	}
	if refused := acl.Validate(b, newest); refused != nil {
		return []error{errors.New(refused.Message)}
	}
	return nil
}

// newest is a level of metadata.version at which hosts may be ranges.
const newest = 33

func (p *reading) add(line int, r row) {
	b, problems := r.binding()
	for _, err := range problems {
		p.problem(line, "%v", err)
	}
	if problems == nil {
		p.entries = append(p.entries, Entry{b, line})
	}
}

// Write writes rules in a format, or nothing: then the error names each rule that the format cannot keep.
func Write(w io.Writer, f Format, rules []acl.Binding) error {
	if _, err := ParseFormat(string(f)); err != nil {
		return err
	}
	var problems []error
	for i, b := range rules {
		if reason := unkept(f, b); reason != "" {
			if len(problems) == maxProblems {
				problems = append(problems, errors.New("and perhaps more"))
				break
			}
			problems = append(problems, fmt.Errorf("row %d, %q: %s cannot keep it: %s", i+1, b.String(), f, reason))
		}
	}
	if len(problems) > 0 {
		return errors.Join(problems...)
	}
	switch f {
	case Strimzi:
		return writeStrimzi(w, rules)
	case KSM:
		return writeKSM(w, rules)
	case Terraform:
		return writeTerraform(w, rules)
	case JSONLines:
		return writeJSONLines(w, rules)
	case KafkaACLs:
	}
	return writeKafkaACLs(w, rules)
}

// unkept is why a format cannot express a rule; "" where it can.
func unkept(f Format, b acl.Binding) string {
	for _, text := range []string{b.Name, b.Principal, b.Host} {
		if !utf8.ValidString(text) {
			return "its text is not UTF-8"
		}
		if (f == KafkaACLs || f == KSM) && strings.ContainsFunc(text, unicode.IsControl) {
			return "it has a control character"
		}
	}
	if problems := valid(b); problems != nil {
		return problems[0].Error()
	}
	switch f {
	case KafkaACLs:
		return unkeptInList(b)
	case Strimzi:
		return unkeptByStrimzi(b)
	case Terraform:
		return unkeptByTerraform(b)
	case KSM, JSONLines:
	}
	return ""
}

// camel is Kafka's word for an enumerated value in camel case: DESCRIBE_CONFIGS is DescribeConfigs.
func camel(word string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(word, "_") {
		b.WriteString(part[:1] + strings.ToLower(part[1:]))
	}
	return b.String()
}
