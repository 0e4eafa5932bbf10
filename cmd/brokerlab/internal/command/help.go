package command

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// helpWidth is how many columns --help and docs/commands.md have.
const helpWidth = 100

// styleHelp folds the help of c and of all below it to helpWidth, and lets a wrong command line end with status 2.
func styleHelp(c *cobra.Command) {
	c.Long = fold(c.Long, helpWidth)
	if c.HasSubCommands() && !c.Runnable() {
		c.SuggestionsMinimumDistance = 2
		c.Args = unknownCommand
		c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
			if unknown := unknownCommand(c, c.Flags().Args()); unknown != nil {
				err = unknown // its flags are unknown, too
			}
			return misused(c, err)
		})
	} else {
		c.SetFlagErrorFunc(misused)
	}
	args := c.Args
	c.Args = func(c *cobra.Command, given []string) error {
		var err error
		if args != nil {
			err = args(c, given)
		}
		if err == nil {
			err = c.ValidateRequiredFlags() // cobra would look later, and end with 1
		}
		if err != nil {
			return misused(c, err)
		}
		return nil
	}
	for _, sub := range c.Commands() {
		styleHelp(sub)
	}
}

// misused says of a wrong command line where the right one is described.
func misused(c *cobra.Command, err error) error {
	return &ExitError{Code: 2, Err: errors.New(strings.TrimSpace(err.Error()) + " (see " + c.CommandPath() + " --help)")}
}

// unknownCommand is the argument check of a command that does nothing itself: a word that is left over is none of its own.
func unknownCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := "there is no command " + c.CommandPath() + " " + args[0]
	if near := c.SuggestionsFor(args[0]); len(near) > 0 {
		text += ": did you mean " + strings.Join(near, " or ") + "?"
	}
	return errors.New(text)
}

// usageTemplate is cobra's with flags folded to the width of everything else, and without saying of a command that only
// has others below it that it can be run.
func usageTemplate(c *cobra.Command) string {
	t := strings.Replace(c.UsageTemplate(), "{{if .Runnable}}", "{{if and .Runnable (not .HasAvailableSubCommands)}}", 1)
	t = strings.ReplaceAll(t, ".LocalFlags.FlagUsages", ".LocalFlags.FlagUsagesWrapped 100")
	return strings.ReplaceAll(t, ".InheritedFlags.FlagUsages", ".InheritedFlags.FlagUsagesWrapped 100")
}

// fold breaks the lines of each paragraph anew, none longer than width. Paragraphs are set apart by an empty line. One that is indented is a
// table, and stays as it is; one that begins with "- " is a list, each of whose items begins a line.
func fold(text string, width int) string {
	const bullet = "- "
	paragraphs := strings.Split(strings.TrimSpace(text), "\n\n")
	for i, p := range paragraphs {
		switch {
		case strings.HasPrefix(p, "  "):
		case strings.HasPrefix(p, bullet):
			items := strings.Split(p[len(bullet):], "\n"+bullet)
			for j, item := range items {
				items[j] = bullet + strings.ReplaceAll(foldWords(item, width-len(bullet)), "\n", "\n  ")
			}
			paragraphs[i] = strings.Join(items, "\n")
		default:
			paragraphs[i] = foldWords(p, width)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// foldWords puts as many words in a line as width allows.
func foldWords(text string, width int) string {
	var b strings.Builder
	column := 0
	for word := range strings.FieldsSeq(text) {
		length := utf8.RuneCountInString(word)
		switch {
		case column == 0:
		case column+1+length > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += length
	}
	return b.String()
}
