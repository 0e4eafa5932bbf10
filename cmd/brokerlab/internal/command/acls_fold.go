package command

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/acl/audit"
	"github.com/brokerlab/brokerlab/broker/aclfile"
)

type aclsFoldOptions struct {
	aclSource

	to     string
	limit  int
	format format
}

func newACLsFold(env Env) *cobra.Command {
	var o aclsFoldOptions
	c := &cobra.Command{
		Use:   "fold",
		Short: "Write rules with the fewest ranges that are exactly their hosts",
		Long: `Write rules with the fewest hosts and CIDR ranges that cover exactly the same addresses, never one more, for each group of
rules that differ in nothing but their host. Before anything is printed, the authorizer is asked about every address at and next
to an end of a host, before and after; standard error says how many. Hosts that never match stay as they are (acls lint says
which those are), and so do exact hosts with a zone. Ranges need metadata.version 4.4-IV1.

The rules are a cluster's or those of files, and are printed in the format --to. Exit status: 0 printed, 2 not.`,
		Example: `  brokerlab acls fold --acls examples/acls/acls.txt
  brokerlab acls fold --acls examples/acls/acls.txt --to jsonl > /tmp/folded.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), env, audit.Fold) },
	}
	o.flags(c)
	return c
}

func newACLsExpand(env Env) *cobra.Command {
	var o aclsFoldOptions
	c := &cobra.Command{
		Use:   "expand",
		Short: "Write rules without ranges, for clusters below 4.4-IV1",
		Long: `Write every CIDR range of rules as the exact hosts in it, in the text that Java prints, for clusters below metadata.version
4.4-IV1, which may not be given ranges. It refuses to write more than --limit rules, and ranges with addresses that clients have
with a zone. As with acls fold, the authorizer is asked about every address at and next to an end, and standard error says how
many.

The rules are a cluster's or those of files, and are printed in the format --to. Exit status: 0 printed, 2 not.`,
		Example: `  brokerlab acls fold --acls examples/acls/acls.txt --to jsonl > /tmp/folded.jsonl
  brokerlab acls expand --acls /tmp/folded.jsonl --limit 100 || true`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c.Context(), env, func(rules []acl.Binding, tell func(done, of int)) ([]acl.Binding, audit.Proof, error) {
				return audit.Expand(rules, o.limit, tell)
			})
		},
	}
	o.flags(c)
	c.Flags().IntVar(&o.limit, "limit", 10_000, "how many `rules` there may be")
	return c
}

func (o *aclsFoldOptions) flags(c *cobra.Command) {
	addACLSource(c, &o.aclSource)
	addACLFormat(c, &o.to, "to", "print the rules like this")
	addFormat(c, &o.format)
}

func (o *aclsFoldOptions) run(ctx context.Context, env Env, rewrite func([]acl.Binding, func(done, of int)) ([]acl.Binding, audit.Proof, error)) error {
	to, err := aclfile.ParseFormat(cmp.Or(o.to, string(aclfile.KafkaACLs)))
	if err != nil {
		return usage("--to: " + err.Error())
	}
	l, err := o.load(ctx, env)
	if err != nil {
		return err
	}
	var rules []acl.Binding
	var proof audit.Proof
	err = withProgress(ctx, env, "groups of rules", func(tell func(done, of int)) (err error) {
		rules, proof, err = rewrite(l.rules, tell)
		return err
	})
	if err == nil && o.format != formatJSON {
		err = aclfile.Write(env.Stdout, to, rules)
	}
	if err != nil {
		return &ExitError{Code: 2, Err: err}
	}
	if o.format == formatJSON {
		rows := make([]aclRow, len(rules))
		for i, b := range rules {
			rows[i] = aclRowOf(b)
		}
		return printJSON(env.Stdout, struct {
			Before    int      `json:"before"`
			After     int      `json:"after"`
			Groups    int      `json:"groups"`
			Addresses int      `json:"boundaryAddresses"` // at which both were asked
			Rules     []aclRow `json:"rules"`
		}{len(l.rules), len(rules), proof.Groups, proof.Addresses, rows})
	}
	_, err = fmt.Fprintf(env.Stderr, "%d rules are %d now: equal over %d boundary addresses of %d groups\n", len(l.rules), len(rules), proof.Addresses, proof.Groups)
	return err
}
