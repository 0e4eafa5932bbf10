package command

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
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
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
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
