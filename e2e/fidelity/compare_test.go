package fidelity

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// view makes of an answer, or anything else, what [both.compare] compares: the same structure without versions and unknown
// tags, and without the fields named in leave. What is different on each peer is put as what it stands for: a topic's
// id of makeTopics as its name, its ports. Bytes are quoted text.
func (p *peer) view(v any, leave ...string) any {
	return p.viewed(reflect.ValueOf(v), append(leave, "Version", "UnknownTags"))
}

func (p *peer) viewed(v reflect.Value, leave []string) any {
	switch v.Kind() {
	case reflect.Invalid:
		return nil
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return p.viewed(v.Elem(), leave)
	case reflect.Struct:
		fields := map[string]any{}
		for field, value := range v.Fields() {
			if !field.IsExported() || slices.Contains(leave, field.Name) {
				continue
			}
			switch {
			case field.Name == "Port" && value.CanInt():
				fields[field.Name] = p.portName(int(value.Int()))
			default:
				fields[field.Name] = p.viewed(value, leave)
			}
		}
		return fields
	case reflect.Map:
		fields := map[string]any{}
		for key, value := range v.Seq2() {
			fields[fmt.Sprint(key)] = p.viewed(value, leave)
		}
		return fields
	case reflect.Array:
		if id, ok := reflect.TypeAssert[[16]byte](v); ok {
			return p.idName(id)
		}
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		if b, ok := reflect.TypeAssert[[]byte](v); ok {
			return strconv.QuoteToASCII(string(b))
		}
		all := make([]any, v.Len())
		for i := range v.Len() {
			all[i] = p.viewed(v.Index(i), leave)
		}
		return all
	case reflect.String:
		return noise.ReplaceAllString(v.String(), "Request Request(...) needs $1 permission.")
	default:
		if s, ok := reflect.TypeAssert[fmt.Stringer](v); ok {
			return s.String()
		}
	}
	return v.Interface()
}

func (p *peer) portName(port int) any {
	for name, known := range p.ports {
		if port == known {
			return "(port of " + name + ")"
		}
	}
	return port
}

func (p *peer) idName(id [16]byte) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name, ok := p.topics[id]; ok {
		return "(id of " + name + ")"
	}
	if id == [16]byte{} {
		return "(no id)"
	}
	if id[15] < 16 && [15]byte(id[:15]) == [15]byte{1, 2, 3} {
		return hex.EncodeToString(id[:])
	}
	return "(another id)"
}

// sorted puts a list of a view in an order of its own, for answers that have none.
func sorted(list any) any {
	all, ok := list.([]any)
	if !ok {
		return list
	}
	slices.SortFunc(all, func(a, b any) int {
		return cmp.Or(strings.Compare(calledOf(a), calledOf(b)), strings.Compare(jsonOf(a), jsonOf(b)))
	})
	return all
}

// calledOf is what an element is called, so that two that differ in other fields are compared with each other.
func calledOf(v any) string {
	fields, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	var names []string
	for _, field := range []string{"Topic", "TopicID", "Name", "Group", "GroupID", "TransactionalID", "ResourceType", "ResourceName", "Key", "User", "Feature", "Partition"} {
		if value, ok := fields[field]; ok {
			names = append(names, fmt.Sprintf("%8v", value))
		}
	}
	return strings.Join(names, " ")
}

// sortedIn sorts the lists under these field names, wherever they are in a view.
func sortedIn(view any, names ...string) any {
	switch v := view.(type) {
	case map[string]any:
		for name, value := range v {
			v[name] = sortedIn(value, names...)
			if slices.Contains(names, name) {
				v[name] = sorted(v[name])
			}
		}
	case []any:
		for i := range v {
			v[i] = sortedIn(v[i], names...)
		}
	}
	return view
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a case returned what is no JSON
	}
	return string(b)
}

// difference is a field that the peers do not agree in.
type difference struct{ path, ours, kafka string }

func (d difference) String() string {
	return fmt.Sprintf("%s: brokerlab %s, Kafka %s", d.path, d.ours, d.kafka)
}

// differ compares two values as JSON, field by field, and counts the fields.
func differ(ours, kafka any, fields *atomic.Int64) []difference {
	var out []difference
	var walk func(path string, a, b any)
	walk = func(path string, a, b any) {
		switch a := a.(type) {
		case map[string]any:
			if b, ok := b.(map[string]any); ok {
				for _, key := range keysOf(a, b) {
					av, inA := a[key]
					bv, inB := b[key]
					at := path + "." + key
					if !plainKey.MatchString(key) {
						at = path + "[" + strconv.Quote(key) + "]"
					}
					at = strings.TrimPrefix(at, ".")
					if inA && inB {
						walk(at, av, bv)
					} else {
						fields.Add(1)
						out = append(out, difference{at, orNothing(av, inA), orNothing(bv, inB)})
					}
				}
				return
			}
		case []any:
			if b, ok := b.([]any); ok {
				for i := range max(len(a), len(b)) {
					at := fmt.Sprintf("%s[%d]", path, i)
					switch {
					case i >= len(a):
						out = append(out, difference{at, "nothing", jsonOf(b[i])})
					case i >= len(b):
						out = append(out, difference{at, jsonOf(a[i]), "nothing"})
					default:
						walk(at, a[i], b[i])
					}
				}
				return
			}
		}
		fields.Add(1)
		if x, y := jsonOf(a), jsonOf(b); x != y {
			out = append(out, difference{path, x, y})
		}
	}
	walk("", generic(ours), generic(kafka))
	return out
}

// noise is how Kafka spells a request in its refusals: it has connections and objects' addresses in it.
var noise = regexp.MustCompile(`^Request Request\(.*\) needs (\w+) permission\.$`)

var plainKey = regexp.MustCompile(`^\w+$`)

func keysOf(a, b map[string]any) []string {
	keys := ordered(a)
	for key := range b {
		if _, ok := a[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

func orNothing(v any, there bool) string {
	if !there {
		return "nothing"
	}
	return jsonOf(v)
}

// generic is a value as encoding/json would read it.
func generic(v any) any {
	var out any
	d := json.NewDecoder(strings.NewReader(jsonOf(v)))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		panic(err)
	}
	return out
}

// list is differences.txt, and what has become of it.
type list struct {
	lines                 []*allowed
	problems              []string
	cases, fields, listed atomic.Int64
	incomplete            atomic.Bool // something was skipped or did not come to its comparison

	mu sync.Mutex // guards the lines' counts
}

// allowed is a line of differences.txt: case | path | reason, or case | path | brokerlab's value | Kafka's | reason, in which
// * stands for any text.
type allowed struct {
	number                               int
	pattern, path, why                   string
	caseLike, pathLike, oursLike, kafkas *regexp.Regexp
	casesSeen, timesHit                  int
}

func (a *allowed) allows(name string, d difference) bool {
	return a.caseLike.MatchString(name) && a.pathLike.MatchString(d.path) && a.oursLike.MatchString(d.ours) && a.kafkas.MatchString(d.kafka)
}

var theList = readList("differences.txt")

func readList(name string) *list {
	l := &list{}
	f, err := os.Open(name)
	if err != nil {
		l.problems = append(l.problems, err.Error())
		return l
	}
	defer f.Close()
	scanner := bufio.NewScanner(f)
	for number := 1; scanner.Scan(); number++ {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(line, " | ")
		if len(parts) == 3 {
			parts = []string{parts[0], parts[1], "*", "*", parts[2]}
		}
		if len(parts) != 5 {
			l.problems = append(l.problems, fmt.Sprintf("%s:%d: want case | path | reason, or case | path | brokerlab | Kafka | reason", name, number))
			continue
		}
		l.lines = append(l.lines, &allowed{
			number: number, pattern: parts[0], path: parts[1], why: parts[4],
			caseLike: globbed(parts[0]), pathLike: globbed(parts[1]), oursLike: globbed(parts[2]), kafkas: globbed(parts[3]),
		})
	}
	return l
}

func globbed(pattern string) *regexp.Regexp {
	return regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(pattern)), `\*`, ".*") + "$")
}

// judge compares what was seen in a case and fails t for each difference that no line allows.
func (l *list) judge(t *testing.T, name string, ours, kafka any) {
	t.Helper()
	const told = 30
	unlisted := l.unlisted(name, ours, kafka)
	for _, d := range unlisted[:min(told, len(unlisted))] {
		t.Errorf("%s: %v", name, d)
	}
	if len(unlisted) > told {
		t.Errorf("%s: and %d more", name, len(unlisted)-told)
	}
}

// odd tells of the differences that no line allows, without holding anything against the list or the case.
func (l *list) odd(name string, ours, kafka any) []string {
	var told []string
	for _, d := range differ(ours, kafka, new(atomic.Int64)) {
		if !slices.ContainsFunc(l.lines, func(line *allowed) bool { return line.allows(name, d) }) {
			told = append(told, d.String())
		}
	}
	return told
}

// unlisted compares what was seen in a case and returns the differences that no line allows.
func (l *list) unlisted(name string, ours, kafka any) []difference {
	found := differ(ours, kafka, &l.fields)
	l.cases.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if line.caseLike.MatchString(name) {
			line.casesSeen++
		}
	}
	return slices.DeleteFunc(found, func(d difference) bool {
		known := false
		for _, line := range l.lines {
			if line.allows(name, d) {
				line.timesHit++
				known = true
			}
		}
		if known {
			l.listed.Add(1)
		}
		return known
	})
}

// gone are the lines that allow what did not happen. Whether a line with a pattern of cases has anything to do is known only
// when the whole of the package has run.
func (l *list) gone(whole bool) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := slices.Clone(l.problems)
	whole = whole && !l.incomplete.Load()
	for _, line := range l.lines {
		decided := whole || line.casesSeen > 0 && !strings.Contains(line.pattern, "*") && !l.incomplete.Load()
		if !decided || line.timesHit > 0 {
			continue
		}
		what := "does not differ any more"
		if line.casesSeen == 0 {
			what = "is no case's"
		}
		out = append(out, fmt.Sprintf("differences.txt:%d: %s | %s %s: take the line out", line.number, line.pattern, line.path, what))
	}
	return out
}
