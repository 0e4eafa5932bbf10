package topology

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing wrong with a lab file.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line"`   // from 1; 0 for a File that was not parsed from text
	Column int    `json:"column"` // from 1
	Text   string `json:"text"`
}

// String is file:line:column: text.
func (p Problem) String() string {
	if p.Line == 0 {
		return p.File + ": " + p.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Text)
}

// InvalidError is everything wrong with a lab file, in the order of the file.
type InvalidError []Problem

// Error has one line a problem.
func (p InvalidError) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].String()
	}
	return strings.Join(lines, "\n")
}

// place is where a key or value stands in the text.
type place struct{ line, column int }

// report collects problems and knows where things stand.
type report struct {
	file     string
	places   map[string]place // by path, such as nodes.broker1.expose[0]
	problems InvalidError
	unread   []string // paths of what could not be read: nothing more is said of them
}

// maxProblems is how many problems are told; whoever has more reads no further.
const maxProblems = 100

// at reports a problem with the thing at path, or with the nearest thing around it that the text has.
func (r *report) at(path, format string, args ...any) {
	for _, u := range r.unread {
		if within(u, path) || within(path, u) {
			return // it would only be a consequence
		}
	}
	if len(r.problems) > maxProblems {
		return
	}
	where, ok := r.places[path]
	for !ok && path != "" {
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
		where, ok = r.places[path]
	}
	r.problems = append(r.problems, Problem{r.file, where.line, where.column, fmt.Sprintf(format, args...)})
}

// within tells whether the thing at path is the one at outer, or a part of it.
func within(outer, path string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || outer == "" || rest[0] == '.' || rest[0] == '[')
}

// err is all problems in the order of the file, or nil.
func (r *report) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	r.problems = slices.Compact(r.problems) // what is wrong with a default is wrong with each node that has it
	if len(r.problems) > maxProblems {
		last := &r.problems[maxProblems]
		last.Text = "there are more problems than these"
	}
	return r.problems
}
