package aclfile

import (
	"bufio"
	"io"
	"strings"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// kafkaACLs reads what kafka-acls.sh --list prints (AclCommand.java). Names and principals may have commas: the words around
// them are looked for from both ends.
func (p *reading) kafkaACLs(text string) {
	var at row
	known := false
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimRight(line, "\r\n")
		trimmed := strings.Trim(line, " \t")
		switch {
		case trimmed == "" || strings.HasPrefix(trimmed, "ACLs for principal `"):
		case strings.Contains(line, "for resource `"):
			at, known = parseResource(line)
			if !known {
				p.problem(number, "want … for resource `ResourcePattern(resourceType=TOPIC, name=orders, patternType=LITERAL)`, got %q", shorten(line))
			}
		case strings.HasPrefix(trimmed, "("):
			entry, ok := parseEntry(trimmed)
			switch {
			case !ok:
				p.problem(number, "want (principal=User:alice, host=*, operation=READ, permissionType=ALLOW), got %q", shorten(line))
			case !known:
				p.problem(number, "an entry before any line that names its resource")
			default:
				entry.resourceType, entry.name, entry.patternType = at.resourceType, at.name, at.patternType
				p.add(number, entry)
			}
		default:
			p.problem(number, "is no line that kafka-acls.sh --list prints: %q", shorten(line))
		}
	}
}

// longestQuote is how much of a line is repeated in a problem.
const longestQuote = 200

func shorten(text string) string {
	if len(text) > longestQuote {
		return strings.ToValidUTF8(text[:longestQuote], "") + "…"
	}
	return text
}

func parseResource(line string) (r row, ok bool) {
	_, text, ok1 := strings.Cut(line, "for resource `ResourcePattern(resourceType=")
	text = strings.TrimRight(text, " \t:")
	text, ok2 := strings.CutSuffix(text, ")`")
	var ok3, ok4 bool
	r.resourceType, text, ok3 = strings.Cut(text, ", name=")
	r.name, r.patternType, ok4 = cutLast(text, ", patternType=")
	return r, ok1 && ok2 && ok3 && ok4
}

func parseEntry(text string) (r row, ok bool) {
	text, ok1 := strings.CutPrefix(text, "(principal=")
	text, ok2 := strings.CutSuffix(text, ")")
	var ok3, ok4, ok5 bool
	text, r.permission, ok3 = cutLast(text, ", permissionType=")
	text, r.operation, ok4 = cutLast(text, ", operation=")
	r.principal, r.host, ok5 = cutLast(text, ", host=")
	return r, ok1 && ok2 && ok3 && ok4 && ok5
}

func cutLast(text, separator string) (before, after string, ok bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

func listHeader(p acl.Pattern) string {
	return "Current ACLs for resource `ResourcePattern(resourceType=" + p.Type.String() + ", name=" + p.Name + ", patternType=" + p.Kind.String() + ")`: "
}

func listEntry(b acl.Binding) string {
	return "(principal=" + b.Principal + ", host=" + b.Host + ", operation=" + b.Operation.String() + ", permissionType=" + b.Permission.String() + ")"
}

// unkeptInList reads back what would be written: nothing is quoted in a list.
func unkeptInList(b acl.Binding) string {
	p := &reading{}
	p.kafkaACLs(listHeader(b.Pattern) + "\n " + "\t" + listEntry(b) + " \n")
	if len(p.problems) > 0 || len(p.entries) != 1 || p.entries[0].Binding != b {
		return "its text would be read as something else"
	}
	return ""
}

// writeKafkaACLs writes the rules of one resource together, as kafka-acls.sh does.
func writeKafkaACLs(w io.Writer, rules []acl.Binding) error {
	out := bufio.NewWriter(w)
	order, groups := grouped(rules, func(b acl.Binding) acl.Pattern { return b.Pattern })
	for _, p := range order {
		lines := make([]string, 0, len(groups[p]))
		for _, b := range groups[p] {
			lines = append(lines, "\t"+listEntry(b))
		}
		_, _ = out.WriteString(listHeader(p) + "\n " + strings.Join(lines, "\n") + " \n\n") // Flush has the error
	}
	return out.Flush()
}

// grouped puts what has the same key together, in the order in which the keys come.
func grouped[K comparable](rules []acl.Binding, key func(acl.Binding) K) ([]K, map[K][]acl.Binding) {
	var order []K
	groups := map[K][]acl.Binding{}
	for _, b := range rules {
		k := key(b)
		if _, ok := groups[k]; !ok {
			order = append(order, k)
		}
		groups[k] = append(groups[k], b)
	}
	return order, groups
}
