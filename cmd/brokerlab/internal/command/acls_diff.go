package command

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/acl/audit"
)

type aclsDiffOptions struct {
	aclSource

	format format
}

func newACLsDiff(env Env) *cobra.Command {
	var o aclsDiffOptions
	c := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Say which decisions change between two sets of rules",
		Long: `Say which decisions change from one set of rules to another: not which rules differ, but who is allowed or denied what now
and was not before, from where, with one address as a witness. Rules that are written anew but decide the same, such as folded
ones, are no difference. The answer is complete: it holds for every address, every name and every principal. "TOPIC (at least
one)" is what an idempotent producer needs, unless a rule about the cluster lets it be one: some topic that it may write to.

BEFORE and AFTER are files in any format that acls import reads. With --bootstrap-server the cluster's rules are BEFORE, and
only AFTER is given. Super users and allow.everyone.if.no.acl.found are the same for both.

Exit status: 0 every decision is the same, 1 some differ, 2 the rules cannot be read.`,
		Example: `  brokerlab acls fold --acls examples/acls/acls.txt > /tmp/folded.txt
  brokerlab acls diff examples/acls/acls.txt /tmp/folded.txt
  brokerlab acls diff --bootstrap-server localhost:9092 examples/acls/acls.txt || true`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error { return o.run(c.Context(), env, args) },
	}
	addACLSource(c, &o.aclSource)
	if err := c.Flags().MarkHidden("acls"); err != nil {
		panic(err) // the flag was added above
	}
	addFormat(c, &o.format)
	return c
}

func (o *aclsDiffOptions) run(ctx context.Context, env Env, args []string) error {
	live := o.servers != ""
	if len(o.files) > 0 || live == (len(args) == 2) {
		return usage("say what to compare: two files, or --bootstrap-server host:port and one file")
	}
	before := o.aclSource
	if !live {
		before.files = args[:1]
	}
	after := o.aclSource
	after.servers, after.files = "", args[len(args)-1:]
	a, err := before.load(ctx, env)
	if err != nil {
		return err
	}
	b, err := after.load(ctx, env)
	if err != nil {
		return err
	}
	var changes []audit.Change
	err = withProgress(ctx, env, "resources compared", func(tell func(done, of int)) (err error) {
		changes, err = audit.Diff(a.policy(), b.policy(), tell)
		return err
	})
	if err != nil {
		return &ExitError{Code: 2, Err: err}
	}
	if o.format == formatJSON {
		rows := make([]jsonDecision, len(changes))
		for i := range changes {
			rows[i] = changeRow(changes[i])
		}
		err = printJSON(env.Stdout, rows)
	} else {
		err = printChanges(env.Stdout, changes)
	}
	if err == nil && len(changes) > 0 {
		return &ExitError{Code: 1}
	}
	return err
}

// policy is what decides, for package audit.
func (l *loadedACLs) policy() *audit.Policy {
	return &audit.Policy{Rules: l.rules, SuperUsers: l.superUsers, AllowEveryone: l.allowEveryone}
}

// withProgress calls f, which tells how far it is, and waits for it until ctx ends. What f works on then is its own: it may go on for as
// long as the process lives.
func withProgress(ctx context.Context, env Env, what string, f func(tell func(done, of int)) error) error {
	p := newProgress(env.Stderr)
	defer p.stop()
	done := make(chan error, 1)
	go func() {
		done <- f(func(done, of int) {
			if ctx.Err() == nil {
				p.set(fmt.Sprintf("%d of %d %s", done, of, what))
			}
		})
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// jsonDecision is a change of --format json.
type jsonDecision struct {
	Principal    string   `json:"principal"`
	ResourceType string   `json:"resourceType"`
	ResourceName string   `json:"resourceName"`
	StandsFor    string   `json:"standsFor,omitempty"` // the pattern of the other names that it stands for
	From         []string `json:"from"`
	Witness      string   `json:"witness"`          // as Kafka prints it
	Allowed      []string `json:"allowed"`          // now
	Denied       []string `json:"denied"`           // now
	Before       string   `json:"before,omitempty"` // the rule, as Kafka's authorizer logs it; none of a topic "(at least one)"
	After        string   `json:"after,omitempty"`
}

func changeRow(c audit.Change) jsonDecision {
	row := jsonDecision{
		Principal: c.Principal, ResourceType: c.Resource.Type.String(), ResourceName: c.Resource.Name, StandsFor: c.Resource.Others, From: rangeTexts(c.Ranges),
		Witness: acl.HostText(c.Witness), Allowed: operationNames(c.Allowed), Denied: operationNames(c.Denied),
	}
	if c.Resource.Name != audit.AtLeastOne {
		row.Before, row.After = c.Before.String(), c.After.String()
	}
	return row
}

func rangeTexts(ranges []audit.Range) []string {
	texts := make([]string, len(ranges))
	for i, r := range ranges {
		texts[i] = r.String()
	}
	return texts
}

func operationNames(ops []acl.Operation) []string {
	names := make([]string, len(ops))
	for i, op := range ops {
		names[i] = op.String()
	}
	return names
}

// fromText says a few ranges.
func fromText(ranges []audit.Range) string {
	const most = 12
	texts := rangeTexts(ranges)
	more := ""
	if len(texts) > most {
		more = fmt.Sprintf(" and %d ranges more", len(texts)-most)
		texts = texts[:most]
	}
	return strings.Join(texts, ", ") + more
}

func principalText(who string) string {
	if who == audit.SomebodyElse {
		return "anybody else"
	}
	return shown(who)
}

func printChanges(w io.Writer, changes []audit.Change) error {
	if len(changes) == 0 {
		_, err := fmt.Fprintln(w, "Every decision is the same.")
		return err
	}
	for i := range changes {
		c := &changes[i]
		head := principalText(c.Principal) + " on " + shown(c.Resource.String())
		if err := printHanging(w, "", head); err != nil {
			return err
		}
		for _, row := range [][2]string{
			{"allowed now", strings.Join(operationNames(c.Allowed), ", ")},
			{"denied now", strings.Join(operationNames(c.Denied), ", ")},
			{"from", fromText(c.Ranges)},
			{"witness", acl.HostText(c.Witness)},
			{"was", decidedBy(c.Before)},
			{"is", decidedBy(c.After)},
		} {
			if row[1] == "" || c.Resource.Name == audit.AtLeastOne && (row[0] == "was" || row[0] == "is") {
				continue
			}
			if err := printHanging(w, "  "+pad(row[0], 13), row[1]); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(w, "Changes: %d.\n", len(changes))
	return err
}
