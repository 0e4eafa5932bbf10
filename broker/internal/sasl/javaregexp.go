package sasl

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Errors of patterns that Java accepts and Go's linear-time engine cannot run.
var (
	ErrLookAround    = errors.New("look-around, (?=…) (?!…) (?<=…) (?<!…), is not supported")
	ErrBackReference = errors.New("back-references in a pattern, \\1 or \\k<name>, are not supported")
	ErrPossessive    = errors.New("possessive quantifiers (*+ ++ ?+ }+) and atomic groups (?>…) are not supported")
	ErrClassAlgebra  = errors.New("a character class inside a character class, and && in one, are not supported")
)

// translateRegexp writes a Java pattern in Go's syntax. What the two spell
// alike and mean differently is either rewritten or refused: a rule never
// matches other subjects than it would in Kafka.
func translateRegexp(pattern string) (string, error) {
	t := &translation{in: pattern}
	for t.pos < len(t.in) {
		if err := t.next(); err != nil {
			return "", fmt.Errorf("pattern `%s`: %w", pattern, err)
		}
	}
	return t.out.String(), nil
}

type translation struct {
	in     string
	pos    int
	out    strings.Builder
	dotAll bool // (?s) was seen
}

// take consumes n bytes.
func (t *translation) take(n int) string {
	s := t.in[t.pos : t.pos+n]
	t.pos += n
	return s
}

func (t *translation) starts(prefix string) bool { return strings.HasPrefix(t.in[t.pos:], prefix) }

func (t *translation) next() error {
	switch t.in[t.pos] {
	case '\\':
		t.pos++
		return t.escape(false)
	case '[':
		return t.class()
	case '(':
		return t.group()
	case '.':
		t.pos++
		if t.dotAll {
			t.out.WriteByte('.')
		} else {
			t.out.WriteString(javaDot)
		}
		return nil
	case '*', '+', '?':
		t.out.WriteString(t.take(1))
		return t.quantified()
	case '{':
		end := strings.IndexByte(t.in[t.pos:], '}')
		if end < 0 || !regexp.MustCompile(`\A\{\d+(,\d*)?\}\z`).MatchString(t.in[t.pos:t.pos+end+1]) {
			return errors.New("illegal repetition")
		}
		t.out.WriteString(t.take(end + 1))
		return t.quantified()
	}
	t.out.WriteString(t.take(1))
	return nil
}

// quantified looks at what follows a quantifier.
func (t *translation) quantified() error {
	switch {
	case t.starts("+"):
		return ErrPossessive
	case t.starts("?"):
		t.out.WriteString(t.take(1))
	}
	if t.pos < len(t.in) && strings.IndexByte("*+?{", t.in[t.pos]) >= 0 {
		return fmt.Errorf("dangling meta character '%c'", t.in[t.pos])
	}
	return nil
}

func (t *translation) group() error {
	if !t.starts("(?") {
		t.out.WriteString(t.take(1))
		return nil
	}
	if slices.ContainsFunc([]string{"(?=", "(?!", "(?<=", "(?<!"}, t.starts) {
		return ErrLookAround
	}
	switch {
	case t.starts("(?>"):
		return ErrPossessive
	case t.starts("(?:"):
		t.out.WriteString(t.take(len("(?:")))
		return nil
	case t.starts("(?<"):
		name := regexp.MustCompile(`\A\(\?<[A-Za-z][A-Za-z0-9]*>`).FindString(t.in[t.pos:])
		if name == "" {
			return errors.New("named capturing group is missing trailing '>'")
		}
		t.out.WriteString("(?P<" + strings.TrimPrefix(t.take(len(name)), "(?<"))
		return nil
	}
	flags := regexp.MustCompile(`\A\(\?[a-zA-Z]*-?[a-zA-Z]*[:)]`).FindString(t.in[t.pos:])
	letters := strings.Trim(flags, "(?:)")
	if flags == "" || strings.Trim(letters, "ims-") != "" {
		return fmt.Errorf("inline flags other than i, m and s are not supported: `%s`", flags)
	}
	on, off, _ := strings.Cut(letters, "-")
	if strings.Contains(on, "s") {
		t.dotAll = true
	}
	if strings.Contains(off, "s") {
		return errors.New("the inline flag -s is not supported")
	}
	if letters == "" {
		t.pos += len(flags) // (?) says nothing
		return nil
	}
	t.out.WriteString(t.take(len(flags)))
	return nil
}

// The sets that Java's letters after a backslash stand for, as the inside of
// a class.
const (
	horizontal = ` \t\x{a0}\x{1680}\x{180e}\x{2000}-\x{200a}\x{202f}\x{205f}\x{3000}`
	vertical   = `\n\x0b\f\r\x{85}\x{2028}\x{2029}`
	blank      = ` \t\n\x0b\f\r`
)

// escape translates what follows a backslash, inside a class or outside.
func (t *translation) escape(inClass bool) error {
	if t.pos == len(t.in) {
		return errors.New("unexpected end after a backslash")
	}
	set := func(inside, negated string) {
		switch {
		case negated != "" && inClass:
			t.out.WriteString(negated)
		case negated != "":
			t.out.WriteString("[^" + inside + "]")
		case inClass:
			t.out.WriteString(inside)
		default:
			t.out.WriteString("[" + inside + "]")
		}
	}
	c := t.in[t.pos]
	switch c {
	case '1', '2', '3', '4', '5', '6', '7', '8', '9', 'k':
		return ErrBackReference
	case 'd', 'D', 'w', 'W', 'a', 't', 'n', 'r', 'f':
		t.out.WriteString(`\` + t.take(1))
		return nil
	case 'e':
		t.pos++
		t.out.WriteString(`\x1b`)
		return nil
	case 's', 'h', 'v':
		t.pos++
		set(map[byte]string{'s': blank, 'h': horizontal, 'v': vertical}[c], "")
		return nil
	case 'S', 'H', 'V':
		t.pos++
		if inClass {
			return fmt.Errorf(`\%c inside a character class is not supported`, c)
		}
		set(map[byte]string{'S': blank, 'H': horizontal, 'V': vertical}[c], "-")
		return nil
	case '0', 'u', 'x', 'c':
		return t.codePoint()
	case 'p', 'P':
		return t.property(inClass)
	case 'Q':
		t.pos++
		literal, _, _ := strings.Cut(t.in[t.pos:], `\E`)
		t.out.WriteString(regexp.QuoteMeta(literal))
		t.pos = min(t.pos+len(literal)+len(`\E`), len(t.in))
		return nil
	}
	if inClass && isLetter(c) {
		return fmt.Errorf(`illegal escape sequence \%c in a character class`, c)
	}
	switch c {
	case 'A', 'b', 'B', 'z':
		t.out.WriteString(`\` + t.take(1))
	case 'Z':
		t.pos++
		t.out.WriteString(`\z`)
	case 'R':
		t.pos++
		t.out.WriteString(`(?:\r\n|[` + vertical + `])`)
	default:
		if isLetter(c) {
			return fmt.Errorf(`escape sequence \%c is not supported`, c)
		}
		if c >= 0x80 {
			return nil // the character itself follows
		}
		t.pos++
		t.out.WriteString(regexp.QuoteMeta(string(c)))
		if inClass && strings.IndexByte(`-&^`, c) >= 0 {
			rewritten := t.out.String()
			t.out.Reset()
			t.out.WriteString(rewritten[:len(rewritten)-len(regexp.QuoteMeta(string(c)))] + fmt.Sprintf(`\x%02x`, c))
		}
	}
	return nil
}

// codePoint translates \0n, \uhhhh, \xhh, \x{h} and \cX.
func (t *translation) codePoint() error {
	forms := []struct {
		re   *regexp.Regexp
		base int
	}{
		{regexp.MustCompile(`\A0([0-3][0-7]{2}|[0-7]{2}|[0-7])`), 8},
		{regexp.MustCompile(`\Au([0-9A-Fa-f]{4})`), 16},
		{regexp.MustCompile(`\Ax([0-9A-Fa-f]{2})`), 16},
		{regexp.MustCompile(`\Ax\{([0-9A-Fa-f]{1,6})\}`), 16},
	}
	for _, f := range forms {
		m := f.re.FindStringSubmatch(t.in[t.pos:])
		if m == nil {
			continue
		}
		n, err := strconv.ParseInt(m[1], f.base, 32)
		if err != nil || n > 0x10ffff || (n >= 0xd800 && n <= 0xdfff) {
			return fmt.Errorf(`illegal code point \%s`, m[0])
		}
		t.pos += len(m[0])
		fmt.Fprintf(&t.out, `\x{%x}`, n)
		return nil
	}
	if t.starts("c") && t.pos+1 < len(t.in) && t.in[t.pos+1] < 0x80 {
		fmt.Fprintf(&t.out, `\x{%x}`, t.in[t.pos+1]^0x40)
		t.pos += 2
		return nil
	}
	return fmt.Errorf(`illegal escape sequence \%c`, t.in[t.pos])
}

// property translates \p{…} and \P{…}.
func (t *translation) property(inClass bool) error {
	m := regexp.MustCompile(`\A[pP](?:\{(\w+)\}|(\w))`).FindStringSubmatch(t.in[t.pos:])
	if m == nil {
		return errors.New("unknown character property")
	}
	name := m[1] + m[2]
	negated := m[0][0] == 'P'
	posix := map[string]string{
		"Lower": "a-z", "Upper": "A-Z", "ASCII": `\x00-\x7f`, "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9",
		"Punct": "!-/:-@\\[-`{-~", "Graph": "!-~", "Print": " -~", "Blank": ` \t`, "Cntrl": `\x00-\x1f\x7f`,
		"XDigit": "0-9a-fA-F", "Space": blank,
	}
	if inside, ok := posix[name]; ok {
		switch {
		case negated && inClass:
			return fmt.Errorf(`\P{%s} inside a character class is not supported`, name)
		case inClass:
			t.out.WriteString(inside)
		case negated:
			t.out.WriteString("[^" + inside + "]")
		default:
			t.out.WriteString("[" + inside + "]")
		}
		t.pos += len(m[0])
		return nil
	}
	translated := fmt.Sprintf(`\%c{%s}`, m[0][0], strings.TrimPrefix(name, "Is"))
	if _, err := regexp.Compile(translated); err != nil {
		return fmt.Errorf("character property {%s} is not supported", name)
	}
	t.pos += len(m[0])
	t.out.WriteString(translated)
	return nil
}

// class translates a bracketed class, which must not contain another.
func (t *translation) class() error {
	t.out.WriteString(t.take(1))
	if t.starts("^") {
		t.out.WriteString(t.take(1))
	}
	for first := true; ; first = false {
		if t.pos == len(t.in) {
			return errors.New("unclosed character class")
		}
		switch c := t.in[t.pos]; {
		case c == ']' && !first:
			t.out.WriteString(t.take(1))
			return nil
		case c == ']':
			t.pos++
			t.out.WriteString(`\]`)
		case c == '[' || t.starts("&&"):
			return ErrClassAlgebra
		case c == '\\':
			t.pos++
			if err := t.escape(true); err != nil {
				return err
			}
		default:
			t.out.WriteString(t.take(1))
		}
	}
}
