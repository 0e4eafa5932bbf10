package sasl

import (
	"errors"
	"fmt"
	"strings"
)

// LoginModule is one entry of a JAAS configuration.
type LoginModule struct {
	Class   string // fully qualified, as written
	Flag    string // lower case: required, requisite, sufficient, optional
	Options map[string]string
}

// The login modules of the mechanisms that are served.
const (
	PlainLoginModule = "org.apache.kafka.common.security.plain.PlainLoginModule"
	ScramLoginModule = "org.apache.kafka.common.security.scram.ScramLoginModule"
)

// PlainUsers lists the users that PlainLoginModule entries define by options
// user_<name>="<password>".
func PlainUsers(modules []LoginModule) map[string]string {
	users := map[string]string{}
	for _, m := range modules {
		if m.Class != PlainLoginModule {
			continue
		}
		for k, v := range m.Options {
			if name, ok := strings.CutPrefix(k, "user_"); ok {
				if _, have := users[name]; !have {
					users[name] = v
				}
			}
		}
	}
	return users
}

// JAAS reads the value of a sasl.jaas.config property as Kafka does, texts of
// errors included: login modules, each a class, a control flag, options and a
// semicolon.
func JAAS(text string) ([]LoginModule, error) {
	t := &tokenizer{in: []rune(text)}
	var modules []LoginModule
	for t.next(); t.kind != tokenEOF; t.next() {
		m, err := parseModule(t)
		if err != nil {
			return nil, err
		}
		modules = append(modules, m)
	}
	if len(modules) == 0 {
		return nil, errors.New("Login module not specified in JAAS config") //nolint:staticcheck // Kafka's text
	}
	return modules, nil
}

func parseModule(t *tokenizer) (LoginModule, error) {
	m := LoginModule{Class: t.text, Options: map[string]string{}}
	named := t.text != ""
	t.next()
	if t.kind == tokenEOF {
		return m, errors.New("Login module control flag not specified in JAAS config") //nolint:staticcheck // Kafka's text
	}
	if !t.hasText {
		return m, errors.New("Login module control flag is not available in the JAAS config") //nolint:staticcheck // Kafka's text
	}
	m.Flag = strings.ToLower(t.text)
	switch m.Flag {
	case "required", "requisite", "sufficient", "optional":
	default:
		return m, fmt.Errorf("Invalid login module control flag '%s' in JAAS config", t.text) //nolint:staticcheck // Kafka's text
	}
	for t.next(); t.kind != tokenEOF && t.kind != ';'; t.next() {
		key := t.text
		if !t.hasText {
			key = "null"
		}
		t.next()
		if t.kind == '=' {
			t.next()
		} else {
			t.hasText = false
		}
		if !t.hasText {
			return m, fmt.Errorf("Value not specified for key '%s' in JAAS config", key) //nolint:staticcheck // Kafka's text
		}
		m.Options[key] = t.text
	}
	if t.kind != ';' {
		return m, errors.New("JAAS config entry not terminated by semi-colon")
	}
	if !named {
		return m, errors.New("login module without a class name in JAAS config")
	}
	return m, nil
}

// Kinds of tokens beside a character that stands for itself.
const (
	tokenEOF    rune = -1
	tokenNumber rune = -2
	tokenWord   rune = -3
)

// tokenizer splits text as the java.io.StreamTokenizer that Kafka sets up for
// JAAS: words of letters, digits, and . - _ $; numbers, which have no text;
// strings in double or single quotes that end at their line's end at the
// latest; comments from // and /* and, by default, from a lone slash.
type tokenizer struct {
	in      []rune
	pos     int
	kind    rune
	text    string
	hasText bool // of words and strings
}

func (t *tokenizer) peek(ahead int) rune {
	if t.pos+ahead < len(t.in) {
		return t.in[t.pos+ahead]
	}
	return tokenEOF
}

func isWordStart(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= 0xa0 || r == '-' || r == '_' || r == '$'
}

func isNumeral(r rune) bool { return isDigit(r) || r == '.' || r == '-' }

func (t *tokenizer) next() {
	t.text, t.hasText = "", false
	t.skip()
	r := t.peek(0)
	switch {
	case r == tokenEOF:
		t.kind = tokenEOF
	case isNumeral(r):
		t.number()
	case isWordStart(r):
		start := t.pos
		for isWordStart(t.peek(0)) || isNumeral(t.peek(0)) {
			t.pos++
		}
		t.kind, t.text, t.hasText = tokenWord, string(t.in[start:t.pos]), true
	case r == '"' || r == '\'':
		t.quoted(r)
	default:
		t.kind = r
		t.pos++
	}
}

// skip passes white space and comments.
func (t *tokenizer) skip() {
	for {
		switch r := t.peek(0); {
		case r >= 0 && r <= ' ':
			t.pos++
		case r == '/' && t.peek(1) == '*':
			t.pos += 2
			for t.peek(0) != tokenEOF && (t.peek(0) != '*' || t.peek(1) != '/') {
				t.pos++
			}
			t.pos = min(t.pos+2, len(t.in))
		case r == '/':
			t.pos += 2 // also when the second ends the line, as in Java
			for t.peek(0) != tokenEOF && t.peek(0) != '\n' && t.peek(0) != '\r' {
				t.pos++
			}
		default:
			return
		}
	}
}

func (t *tokenizer) number() {
	t.kind = tokenNumber
	if t.peek(0) == '-' {
		t.pos++
		if r := t.peek(0); r != '.' && !isDigit(r) {
			t.kind = '-'
			return
		}
	}
	for dots := 0; ; t.pos++ {
		r := t.peek(0)
		if r == '.' {
			dots++
		}
		if !isDigit(r) && (r != '.' || dots > 1) {
			return
		}
	}
}

func (t *tokenizer) quoted(quote rune) {
	var text strings.Builder
	t.pos++
	for {
		r := t.peek(0)
		if r == tokenEOF || r == '\n' || r == '\r' {
			break
		}
		t.pos++
		if r == quote {
			break
		}
		if r == '\\' {
			r = t.escaped()
		}
		if r != tokenEOF {
			text.WriteRune(r)
		}
	}
	t.kind, t.text, t.hasText = quote, text.String(), true
}

// escaped reads what a backslash in a string stands for.
func (t *tokenizer) escaped() rune {
	r := t.peek(0)
	if r == tokenEOF {
		return r
	}
	t.pos++
	if r >= '0' && r <= '7' {
		value, most := r-'0', 1
		if r <= '3' {
			most = 2
		}
		for ; most > 0 && t.peek(0) >= '0' && t.peek(0) <= '7'; most-- {
			value = value<<3 + t.peek(0) - '0'
			t.pos++
		}
		return value
	}
	if i := strings.IndexRune("abfnrtv", r); i >= 0 {
		return rune("\a\b\f\n\r\t\v"[i])
	}
	return r
}
