package sasl

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Mapper maps certificate subjects to principal names by
// ssl.principal.mapping.rules. It is immutable.
type Mapper struct {
	text  string
	rules []rule
}

// UnmappedError is a subject that has no principal name: no rule matches it, or
// the replacement of the first that does cannot be applied. Kafka then lets
// the TLS handshake succeed and closes the connection at its first request.
type UnmappedError struct {
	DN  string
	Why error
}

func (e *UnmappedError) Error() string {
	return fmt.Sprintf("Failed to map name for '%s' based on SSL principal mapping rules. (%v)", e.DN, e.Why)
}

func (e *UnmappedError) Unwrap() error { return e.Why }

// ErrNoRule is why a subject is unmapped that no rule matches.
var ErrNoRule = errors.New("no rule applies")

// javaDot is what a dot matches in Java: any but its line terminators.
const javaDot = `[^\n\r\x{85}\x{2028}\x{2029}]`

const ruleForms = `(DEFAULT)|RULE:((\\` + javaDot + `|[^\\/])*)/((\\` + javaDot + `|[^\\/])*)/([LU]?)` + javaDot + `*?|(` + javaDot + `*?)`

// ParseRules reads ssl.principal.mapping.rules. An empty value has no rule, so
// that nothing maps; it is not DEFAULT.
func ParseRules(text string) (*Mapper, error) {
	splitter := regexp.MustCompile(`\s*(` + ruleForms + `)\s*(,\s*|\z)`)
	parser := regexp.MustCompile(`\A(?:` + ruleForms + `)`)
	m := &Mapper{text: text}
	for _, split := range splitter.FindAllStringSubmatch(strings.Trim(text, javaTrimmed), -1) {
		one := split[1]
		parts := parser.FindStringSubmatchIndex(one)
		if parts[1] != len(one) {
			return nil, fmt.Errorf("Invalid rule: `%s`, unmatched substring: `%s`", one, one[parts[1]:]) //nolint:staticcheck // Kafka's text
		}
		group := func(n int) string { return one[parts[2*n]:parts[2*n+1]] }
		switch {
		case parts[2] >= 0:
			m.rules = append(m.rules, rule{isDefault: true})
		case parts[4] >= 0:
			r, err := newRule(group(2), group(4), group(6))
			if err != nil {
				return nil, fmt.Errorf("rule `%s`: %w", one, err)
			}
			m.rules = append(m.rules, r)
		}
	}
	return m, nil
}

// javaTrimmed is what String.trim takes off.
const javaTrimmed = "\x00\x01\x02\x03\x04\x05\x06\x07\x08\t\n\x0b\f\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f "

// String is the text that the rules were read from.
func (m *Mapper) String() string { return m.text }

// Map gives the principal name of a subject in RFC 2253 form. The error is an
// [*UnmappedError].
func (m *Mapper) Map(dn string) (string, error) {
	for _, r := range m.rules {
		name, ok, err := r.apply(dn)
		if err != nil {
			return "", &UnmappedError{DN: dn, Why: err}
		}
		if ok {
			return name, nil
		}
	}
	return "", &UnmappedError{DN: dn, Why: ErrNoRule}
}

type rule struct {
	isDefault   bool
	whole       *regexp.Regexp // matches all of a subject
	part        *regexp.Regexp // finds matches in it
	after       *regexp.Regexp // finds a match just behind the first character
	replacement string
	letters     string // "", "L" or "U"
}

func newRule(pattern, replacement, letters string) (rule, error) {
	translated, err := translateRegexp(pattern)
	if err != nil {
		return rule{}, err
	}
	r := rule{letters: letters}
	if r.part, err = regexp.Compile(translated); err != nil {
		return rule{}, fmt.Errorf("pattern `%s`: %w", pattern, err)
	}
	if r.whole, err = regexp.Compile(`\A(?:` + translated + `)\z`); err != nil {
		return rule{}, fmt.Errorf("pattern `%s`: %w", pattern, err)
	}
	if r.after, err = regexp.Compile(`\A(?s:.)(?:` + translated + `)`); err != nil {
		return rule{}, fmt.Errorf("pattern `%s`: %w", pattern, err)
	}
	r.replacement = replacement
	return r, nil
}

// apply reports ok false when the rule does not match.
func (r rule) apply(dn string) (name string, ok bool, err error) {
	if r.isDefault {
		return dn, true, nil
	}
	if !r.whole.MatchString(dn) {
		return "", false, nil
	}
	template, err := escapeMissingGroups(r.replacement, r.part.NumSubexp())
	if err != nil {
		return "", false, err
	}
	var out strings.Builder
	end := 0
	for _, match := range r.matches(dn) {
		out.WriteString(dn[end:match[0]])
		if err := expand(&out, template, dn, match, r.part.SubexpNames()); err != nil {
			return "", false, err
		}
		end = match[1]
	}
	out.WriteString(dn[end:])
	switch r.letters {
	case "L":
		return cases.Lower(language.English).String(out.String()), true, nil
	case "U":
		return cases.Upper(language.English).String(out.String()), true, nil
	}
	return out.String(), true, nil
}

// matches lists what Java's Matcher.find finds one after another. Go leaves
// out an empty match that touches the one before it; Java does not.
func (r rule) matches(s string) [][]int {
	found := r.part.FindAllStringSubmatchIndex(s, -1)
	all := make([][]int, 0, len(found)+1)
	for i, match := range found {
		all = append(all, match)
		end := match[1]
		if match[0] == end || (i+1 < len(found) && found[i+1][0] == end) {
			continue
		}
		// A match at end, seen from one character before it, so that ^ and \b
		// know where they are.
		_, width := utf8.DecodeLastRuneInString(s[:end])
		from := end - width
		if next := r.after.FindStringSubmatchIndex(s[from:]); len(next) > 0 && next[1] == width {
			for j := range next {
				if next[j] >= 0 {
					next[j] += from
				}
			}
			next[0] = end
			all = append(all, next)
		}
	}
	return all
}

// escapeMissingGroups puts a backslash before a $n for which there is no
// group, even when the digits from the right are taken off n. Like Kafka, it
// does so at places counted in the text before the first backslash: a second
// one comes out one character early. Without any group nothing is escaped.
func escapeMissingGroups(text string, groups int) (string, error) {
	if groups == 0 {
		return text, nil
	}
	value := []rune(text)
	original := []rune(text)
	for i := 0; i < len(original); i++ {
		start := i + 1
		if original[i] != '$' || start == len(original) || !isDigit(original[start]) {
			continue
		}
		end := start
		for end < len(original) && isDigit(original[end]) {
			end++
		}
		digits := string(original[start:end])
		i = end - 1
		if digits[0] == '0' {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil {
			return "", fmt.Errorf("group reference $%s is no number", digits)
		}
		for n > int64(groups) && n >= 10 {
			n /= 10
		}
		if n > int64(groups) {
			value = append(value[:start-1:start-1], append([]rune{'\\'}, value[start-1:]...)...)
		}
	}
	return string(value), nil
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

// expand appends the replacement of one match as Java's Matcher.appendReplacement.
func expand(out *strings.Builder, template, s string, match []int, names []string) error {
	group := func(n int) {
		if match[2*n] >= 0 {
			out.WriteString(s[match[2*n]:match[2*n+1]])
		}
	}
	for i := 0; i < len(template); i++ {
		switch template[i] {
		case '\\':
			i++
			if i == len(template) {
				return errors.New("character to be escaped is missing")
			}
			out.WriteByte(template[i])
		case '$':
			n, width, err := reference(template[i+1:], names)
			if err != nil {
				return err
			}
			group(n)
			i += width
		default:
			out.WriteByte(template[i])
		}
	}
	return nil
}

// reference reads what stands behind a dollar sign: a group's number or name.
func reference(text string, names []string) (group, width int, err error) {
	if text == "" {
		return 0, 0, errors.New("Illegal group reference: group index is missing") //nolint:staticcheck // Java's text
	}
	if text[0] == '{' {
		return namedReference(text, names)
	}
	if !isDigit(rune(text[0])) {
		return 0, 0, errors.New("Illegal group reference") //nolint:staticcheck // Java's text
	}
	group = int(text[0] - '0')
	width = 1
	for width < len(text) && isDigit(rune(text[width])) {
		longer := group*10 + int(text[width]-'0')
		if longer >= len(names) {
			break
		}
		group = longer
		width++
	}
	if group >= len(names) {
		return 0, 0, fmt.Errorf("No group %d", group) //nolint:staticcheck // Java's text
	}
	return group, width, nil
}

func namedReference(text string, names []string) (group, width int, err error) {
	end := 1
	for end < len(text) && (isDigit(rune(text[end])) || isLetter(text[end])) {
		end++
	}
	name := text[1:end]
	switch {
	case name == "" || end == len(text) || text[end] != '}':
		return 0, 0, errors.New("named capturing group is missing trailing '}'")
	case isDigit(rune(name[0])):
		return 0, 0, fmt.Errorf("capturing group name {%s} starts with digit character", name)
	}
	for i, n := range names {
		if n == name {
			return i, end + 1, nil
		}
	}
	return 0, 0, fmt.Errorf("No group with name {%s}", name) //nolint:staticcheck // Java's text
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
