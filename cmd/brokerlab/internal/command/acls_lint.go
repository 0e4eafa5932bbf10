package command

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/magiconair/properties"
	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/acl/audit"
)

type aclsLintOptions struct {
	aclSource

	dualStack bool
	format    format
}

func newACLsLint(env Env) *cobra.Command {
	var o aclsLintOptions
	c := &cobra.Command{
		Use:   "lint",
		Short: "Find rules that cannot do what they seem to",
		Long: `Find rules that cannot do what they seem to, and say what to write instead: hosts that never match (IPv6 text that Java
writes otherwise, host names, globs, ranges like 10.0.0.1-10.0.0.9, ranges that do not parse), ranges that are not what they
look like (IPv4 inside of IPv6, host bits), the same host twice in other words, an ALLOW that a wider DENY hides, rules without
effect, exact hosts that are fewer ranges, operations that a resource does not have, and names that look like globs. The rules
are a cluster's or those of files.

With --dual-stack, or where --properties has a listener on every address, rules for IPv4 alone are told as well.

Exit status: 0 nothing found, 1 something found, 2 the rules cannot be read.`,
		Example: `  brokerlab acls lint --acls examples/acls/acls.txt || true
  brokerlab acls lint --acls examples/acls/acls.txt --format json || true`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), env) },
	}
	c.Flags().BoolVar(&o.dualStack, "dual-stack", false, "clients may connect over IPv6 as well as IPv4")
	addACLSource(c, &o.aclSource)
	addFormat(c, &o.format)
	return c
}

// jsonFinding is a finding of --format json.
type jsonFinding struct {
	Code    string `json:"code"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"` // of the file
	Rule    aclRow `json:"rule"`
	Text    string `json:"text"`
	Instead string `json:"instead,omitempty"`
}

func (o *aclsLintOptions) run(ctx context.Context, env Env) error {
	l, err := o.load(ctx, env)
	if err != nil {
		return err
	}
	var findings []audit.Finding
	err = withProgress(ctx, env, "rules looked at", func(tell func(done, of int)) error {
		findings = audit.Lint(l.rules, o.dualStack || listensOnBothFamilies(o.properties), tell)
		return nil
	})
	if err != nil {
		return err
	}
	if o.format == formatJSON {
		rows := make([]jsonFinding, len(findings))
		for i, f := range findings {
			rows[i] = jsonFinding{string(f.Code), l.file(f.Rule), l.entries[f.Rule].Line, aclRowOf(l.rules[f.Rule]), f.Text, f.Instead}
		}
		err = printJSON(env.Stdout, rows)
	} else {
		err = printFindings(env.Stdout, l, findings)
	}
	if err == nil && len(findings) > 0 {
		return &ExitError{Code: 1}
	}
	return err
}

// listensOnBothFamilies tells whether a broker's properties have a listener on every address, which takes IPv6 as well.
func listensOnBothFamilies(path string) bool {
	if path == "" {
		return false
	}
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadFile(path)
	if err != nil {
		return false // it was read before
	}
	listeners := p.GetString("listeners", "")
	return strings.Contains(listeners, "://:") || strings.Contains(listeners, "://[::]:")
}

func printFindings(w io.Writer, l *loadedACLs, findings []audit.Finding) error {
	for _, f := range findings {
		where := l.place(f.Rule)
		if where != "" {
			where += ": "
		}
		if err := printHanging(w, "", where+ruleText(l.rules[f.Rule])); err != nil {
			return err
		}
		if err := printHanging(w, "    "+pad(string(f.Code), 16), shown(f.Text)); err != nil {
			return err
		}
		if f.Instead == "" {
			continue
		}
		if err := printHanging(w, "    "+pad("instead", 16), shown(f.Instead)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "Findings: %d in %d rules.\n", len(findings), len(l.rules))
	return err
}
