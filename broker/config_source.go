package broker

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	javaproperties "github.com/magiconair/properties"
)

// readFile reads a properties file as Java does: ISO 8859-1, the last of equal
// keys wins, nothing is expanded.
func (l *loading) readFile(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	l.file = filepath.Base(path)
	for _, line := range logicalLines(content) {
		where := fmt.Sprintf("%s:%d", l.file, line.number)
		key, value, err := parseLine(line.text)
		if err != nil {
			l.problems = append(l.problems, &PropertyError{Where: where, Key: "syntax", Err: err})
			continue
		}
		if earlier, twice := l.settings[key]; twice {
			l.warnings = append(l.warnings, fmt.Sprintf("%s: %s: given before at %s; the last one holds", where, key, earlier.where))
		}
		l.settings[key] = setting{value: value, where: where, line: line.number}
	}
	return nil
}

// readOverrides lets key=value texts replace what the file says.
func (l *loading) readOverrides(overrides []string) {
	const afterAllLines = 1 << 30
	for i, o := range overrides {
		key, value, ok := strings.Cut(o, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			l.problems = append(l.problems, &PropertyError{Where: "-o", Key: o, Err: errors.New("expected key=value")})
			continue
		}
		l.settings[key] = setting{value: strings.TrimSpace(value), where: "-o", line: afterAllLines + i}
	}
}

// logicalLine is a line joined with those that continue it.
type logicalLine struct {
	number int // of its first, counted from 1
	text   []byte
}

// logicalLines splits a properties file as Java does, comments and blank lines
// left out. The library reads keys and values, but does not tell where they
// stand, nor join lines within a key.
func logicalLines(content []byte) []logicalLine {
	content = bytes.ReplaceAll(content, []byte("\r\n"), []byte("\n"))
	content = bytes.ReplaceAll(content, []byte("\r"), []byte("\n"))
	var lines []logicalLine
	continued := false
	for i, text := range bytes.Split(content, []byte("\n")) {
		text = bytes.TrimLeft(text, " \t\f")
		if !continued && (len(text) == 0 || text[0] == '#' || text[0] == '!') {
			continue
		}
		backslashes := len(text) - len(bytes.TrimRight(text, `\`))
		goesOn := backslashes%2 == 1
		if goesOn {
			text = text[:len(text)-1]
		}
		switch {
		case continued:
			last := &lines[len(lines)-1]
			last.text = append(last.text, text...)
		case len(text) > 0:
			lines = append(lines, logicalLine{number: i + 1, text: bytes.Clone(text)})
		default:
			continue // nothing but a backslash: what follows begins a line
		}
		continued = goesOn
	}
	return lines
}

func parseLine(text []byte) (key, value string, err error) {
	if text[0] == '=' || text[0] == ':' {
		return "", "", errors.New("a line without a key")
	}
	loader := &javaproperties.Loader{Encoding: javaproperties.ISO_8859_1, DisableExpansion: true}
	p, err := loader.LoadBytes(text)
	if err != nil {
		return "", "", fmt.Errorf("not a line of a properties file: %w", err)
	}
	keys := p.Keys()
	if len(keys) != 1 || strings.TrimSpace(keys[0]) == "" {
		return "", "", errors.New("a line without a key")
	}
	value, _ = p.Get(keys[0])
	return keys[0], strings.TrimSpace(value), nil
}
