package command

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/brokerlab/brokerlab/broker/aclfile"
)

// format is the value of --format.
type format string

const (
	formatTable format = "table"
	formatJSON  format = "json"
)

// String, Set and Type make format a flag that refuses other words.
func (f *format) String() string { return string(*f) }

// Set takes table or json.
func (f *format) Set(s string) error {
	switch format(s) {
	case formatTable, formatJSON:
		*f = format(s)
		return nil
	}
	return fmt.Errorf("%q is not a format: use table or json", s)
}

// Type names the value in --help.
func (*format) Type() string { return "table|json" }

// addFormat gives c the flag --format.
func addFormat(c *cobra.Command, f *format) {
	*f = formatTable
	c.Flags().Var(f, "format", "how to print")
}

// printJSON writes v indented, one document.
func printJSON(w io.Writer, v any) error {
	return encodeJSON(w, v, "  ")
}

// printJSONLine writes v on one line.
func printJSONLine(w io.Writer, v any) error { return encodeJSON(w, v, "") }

func encodeJSON(w io.Writer, v any, indent string) error {
	e := json.NewEncoder(jsonWriter{w})
	e.SetIndent("", indent)
	return e.Encode(v)
}

// jsonWriter passes JSON on with what steers a terminal escaped. A document, or a line of a log, comes in one piece.
type jsonWriter struct{ w io.Writer }

func (j jsonWriter) Write(doc []byte) (int, error) {
	if _, err := j.w.Write(aclfile.EscapeJSON(doc)); err != nil {
		return 0, err
	}
	return len(doc), nil
}

// plural is a number of things.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "x") {
		return fmt.Sprintf("%d %ses", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Prefixes by which sources are added up.
const (
	prefixBits4 = 24
	prefixBits6 = 64
)

// refresh clears a terminal and goes to its upper left corner.
const refresh = "\x1b[H\x1b[2J"

// isTerminal tells whether w is a terminal: only there may output carry colour, or refresh in place.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// columns appends rows of cells as a table; flags are tabwriter's.
func columns(text *strings.Builder, rows [][]string, flags uint) {
	var table strings.Builder
	t := tabwriter.NewWriter(&table, 0, 0, 2, ' ', flags)
	for _, r := range rows {
		line := strings.Join(r, "\t")
		if flags&tabwriter.AlignRight != 0 {
			line += "\t" // what is not ended is not aligned
		}
		_, _ = io.WriteString(t, line+"\n") // a builder takes everything
	}
	_ = t.Flush()
	for line := range strings.Lines(table.String()) { // empty cells at an end are padded, too
		text.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}
