package command

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// explainOptions are the flags of brokerlab acls explain.
type explainOptions struct {
	aclSource

	principal, host, operation                   string
	topic, group, transactionalID, token, userOf string
	cluster                                      bool
	batch                                        string
	format                                       format
}

func newACLsExplain(env Env) *cobra.Command {
	var o explainOptions
	c := &cobra.Command{
		Use:   "explain --principal WHO --host ADDRESS --operation WHAT --topic NAME",
		Short: "Say whether somebody may do something from an address, and which rule decides",
		Long: `Say whether a principal may do something to a resource from an address, which rule decides, and of every rule that could
have had a say why it has none. The rules are those of a cluster, also of Apache Kafka's, or of files; nothing is changed and
nothing is tried.

The address is shown as Kafka prints it: exact hosts in rules are compared with that text. A distinguished name as
--principal is mapped by the rules in --properties.

--batch answers many questions: a CSV file with the columns principal, host, operation, resourceType and resourceName.

Needs DESCRIBE on the cluster, if it is asked. Exit status: 0 allowed (of a batch: all), 1 denied, 2 the question or the rules
cannot be read.`,
		Example: `  brokerlab acls explain --acls examples/acls/acls.txt \
    --principal User:billing --host 10.20.30.7 --operation Read --topic orders
  brokerlab acls explain --acls examples/acls/acls.txt \
    --properties examples/acls/server.properties --principal CN=billing,OU=Services,O=Example \
    --host 2001:db8:20:30::7 --operation Describe --topic audit-1
  brokerlab acls explain --acls examples/acls/acls.txt --batch examples/acls/questions.csv || true`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), env) },
	}
	f := c.Flags()
	f.StringVar(&o.principal, "principal", "", "`who`: Type:name, or the distinguished name of a certificate")
	f.StringVar(&o.host, "host", "", "the `address` that the client connects from")
	f.StringVar(&o.operation, "operation", "", "`what`, such as Read")
	f.StringVar(&o.topic, "topic", "", "`name` of a topic")
	f.StringVar(&o.group, "group", "", "`name` of a group")
	f.BoolVar(&o.cluster, "cluster", false, "the cluster")
	f.StringVar(&o.transactionalID, "transactional-id", "", "a transactional `id`")
	f.StringVar(&o.token, "delegation-token", "", "`id` of a delegation token")
	f.StringVar(&o.userOf, "user-principal", "", "a principal, `Type:name`, as the resource of CreateTokens and DescribeTokens")
	f.StringVar(&o.batch, "batch", "", "a CSV `file` of questions")
	addACLSource(c, &o.aclSource)
	addFormat(c, &o.format)
	return c
}

func (o *explainOptions) run(ctx context.Context, env Env) error {
	single := o.principal != "" || o.host != "" || o.operation != "" || o.cluster || o.topic+o.group+o.transactionalID+o.token+o.userOf != ""
	if single == (o.batch != "") {
		return usage("ask one question with --principal, --host, --operation and a resource, or many with --batch")
	}
	loaded, err := o.load(ctx, env)
	if err != nil {
		return err
	}
	var queries []acl.Query
	if single {
		var q acl.Query
		q, err = o.query(loaded)
		queries = append(queries, q)
	} else {
		queries, err = readQuestions(o.batch, loaded)
	}
	if err != nil {
		return &ExitError{Code: 2, Err: err}
	}
	a := loaded.authorizer()
	denied := false
	answers := make([]jsonExplanation, 0, len(queries))
	for _, q := range queries {
		e := acl.Explanation{}
		if single {
			e = a.Explain(q)
		} else {
			e.Reason = a.Reason(q)
		}
		denied = denied || !e.Allowed
		answers = append(answers, explanationOf(q, e))
		switch {
		case o.format == formatJSON:
		case single:
			err = errors.Join(printExplanation(env.Stdout, q, e), o.printUnknowns(env.Stdout, e))
		default:
			err = printVerdict(env.Stdout, q, e)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case o.format != formatJSON:
	case single:
		err = printJSON(env.Stdout, answers[0])
	default:
		err = printJSON(env.Stdout, answers)
	}
	if err == nil && denied {
		return &ExitError{Code: 1}
	}
	return err
}

// printUnknowns says of a refusal what a cluster does not tell: these configs are the brokers' own, and hidden by DescribeConfigs.
func (o *explainOptions) printUnknowns(w io.Writer, e acl.Explanation) error {
	if e.Allowed || o.servers == "" || o.properties+o.superUsers != "" || o.allowEveryone {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return printHanging(w, pad("note", 11), "no broker tells who its super users are, nor whether it allows what no rule is about: say so with "+
		"--properties, or with --super-users and --allow-everyone")
}

// query is the question of the command line.
func (o *explainOptions) query(l *loadedACLs) (acl.Query, error) {
	var asked []question
	for t, name := range map[acl.ResourceType]string{
		acl.Topic: o.topic, acl.Group: o.group, acl.TransactionalID: o.transactionalID, acl.DelegationToken: o.token, acl.User: o.userOf,
	} {
		if name != "" {
			asked = append(asked, question{o.principal, o.host, o.operation, t.String(), name})
		}
	}
	if o.cluster {
		asked = append(asked, question{o.principal, o.host, o.operation, acl.Cluster.String(), acl.ClusterName})
	}
	if len(asked) != 1 {
		return acl.Query{}, errors.New("want one resource: --topic, --group, --cluster, --transactional-id, --delegation-token or --user-principal")
	}
	return asked[0].query(l)
}

// question is one as texts.
type question struct{ principal, host, operation, resourceType, resourceName string }

// query makes a question that can be asked, or says all that is wrong with it.
func (t question) query(l *loadedACLs) (acl.Query, error) {
	q := acl.Query{Name: t.resourceName}
	var errs []error
	var err error
	q.Principal, err = l.principal(t.principal)
	errs = append(errs, err)
	if q.Client, err = netip.ParseAddr(t.host); err != nil {
		errs = append(errs, fmt.Errorf("host %q: want the client's address, such as 10.0.0.7 or 2001:db8::7", t.host))
	}
	q.Operation, err = acl.ParseOperation(t.operation)
	errs = append(errs, err)
	q.Type, err = acl.ParseResourceType(t.resourceType)
	errs = append(errs, err)
	if q.Type == acl.Cluster && q.Name == "" {
		q.Name = acl.ClusterName
	}
	if err := errors.Join(errs...); err != nil {
		return q, err
	}
	if means := acl.Operations(q.Type); !slices.Contains(means, q.Operation) {
		var names []string
		for _, op := range means {
			names = append(names, op.String())
		}
		return q, fmt.Errorf("nobody is ever asked for %s on %s: one of %s", q.Operation, q.Type, strings.Join(names, ", "))
	}
	return q, nil
}

// Bounds of a batch.
const (
	mostQuestions     = 1_000_000
	mostBatchProblems = 100
)

// readQuestions reads a CSV file of questions. The error has all problems, with their lines.
func readQuestions(path string, l *loadedACLs) ([]acl.Query, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it is only read
	columns := []string{"principal", "host", "operation", "resourceType", "resourceName"}
	r := csv.NewReader(file)
	r.FieldsPerRecord = len(columns)
	header, err := r.Read()
	if err != nil || !slices.Equal(header, columns) {
		return nil, fmt.Errorf("%s:1: want the header %s", path, strings.Join(columns, ","))
	}
	var all []acl.Query
	var problems []error
	for len(problems) < mostBatchProblems {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", path, err))
			if errors.Is(err, csv.ErrFieldCount) {
				continue
			}
			break
		}
		line, _ := r.FieldPos(0)
		q, err := question{row[0], row[1], row[2], row[3], row[4]}.query(l)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s:%d: %w", path, line, err))
		}
		if all = append(all, q); len(all) > mostQuestions {
			problems = append(problems, fmt.Errorf("%s: has more than %d questions", path, mostQuestions))
			break
		}
	}
	return all, errors.Join(problems...)
}

func verdict(allowed bool) string {
	if allowed {
		return "ALLOWED"
	}
	return "DENIED"
}

func queryText(q acl.Query) string {
	return fmt.Sprintf("%s from %s: %s on %s %s", shown(q.Principal), shown(acl.HostText(q.Client)), q.Operation, q.Type, shown(q.Name))
}

// decidedBy says what decided.
func decidedBy(r acl.Reason) string {
	switch r.Rule {
	case acl.MatchingRule:
		return ruleText(*r.Deciding)
	case acl.SuperUser:
		return "SuperUser: no rule is looked at"
	case acl.DefaultAllow:
		return "DefaultAllow: no rule is about the resource, and allow.everyone.if.no.acl.found is true"
	case acl.DefaultDeny:
	}
	return "DefaultDeny: no rule allows it"
}

func printVerdict(w io.Writer, q acl.Query, e acl.Explanation) error {
	if err := printHanging(w, pad(verdict(e.Allowed), 9), queryText(q)); err != nil {
		return err
	}
	return printHanging(w, "           ", "by "+decidedBy(e.Reason))
}

func printExplanation(w io.Writer, q acl.Query, e acl.Explanation) error {
	const width = 11
	for _, row := range [][2]string{
		{verdict(e.Allowed), queryText(q)},
		{"decided by", decidedBy(e.Reason)},
		{"address", shown(acl.HostText(q.Client)) + ", as Kafka prints it"},
	} {
		if err := printHanging(w, pad(row[0], width), row[1]); err != nil {
			return err
		}
	}
	if len(e.Candidates) == 0 {
		return printHanging(w, pad("rules", width), "none is about the resource, or about the principal and this type of resource")
	}
	if _, err := fmt.Fprintln(w, "\nThe rules about the resource, then the principal's others about its type, as Kafka looks at them:"); err != nil {
		return err
	}
	for _, c := range e.Candidates {
		if err := printHanging(w, "  ", ruleText(c.Binding)); err != nil {
			return err
		}
		if err := printHanging(w, "      ", candidateText(c, e)); err != nil {
			return err
		}
	}
	if e.More > 0 {
		return printHanging(w, "  ", "and "+strconv.Itoa(e.More)+" more")
	}
	return nil
}

// candidateText says what came of a rule.
func candidateText(c acl.Candidate, e acl.Explanation) string {
	text := c.Mismatch.String()
	switch {
	case c.Mismatch == acl.Applies && e.Deciding != nil && *e.Deciding == c.Binding:
		text = "applies, and decides"
	case c.Mismatch == acl.Applies && c.Binding.Permission == acl.Allow && !e.Allowed:
		text = "applies, but a DENY beats it"
	}
	if p, err := acl.ParseCIDR(c.Binding.Host); err == nil && acl.IsCIDR(c.Binding.Host) && p.String() != c.Binding.Host {
		text += " (the range is " + p.String() + ")"
	}
	return text
}

// jsonExplanation is an answer of --format json.
type jsonExplanation struct {
	Principal    string          `json:"principal"`
	Address      string          `json:"address"` // as Kafka prints it
	Operation    string          `json:"operation"`
	ResourceType string          `json:"resourceType"`
	ResourceName string          `json:"resourceName"`
	Allowed      bool            `json:"allowed"`
	Rule         string          `json:"rule"` // as Kafka's authorizer logs it
	Deciding     *aclRow         `json:"deciding"`
	Candidates   []jsonCandidate `json:"candidates,omitempty"` // not of a batch
	More         int             `json:"more,omitempty"`
}

type jsonCandidate struct {
	aclRow

	Applies bool   `json:"applies"`
	Why     string `json:"why"`
}

func aclRowOf(b acl.Binding) aclRow {
	return aclRow{b.Type.String(), b.Name, b.Kind.String(), b.Principal, b.Host, b.Operation.String(), b.Permission.String()}
}

func explanationOf(q acl.Query, e acl.Explanation) jsonExplanation {
	j := jsonExplanation{
		Principal: q.Principal, Address: acl.HostText(q.Client), Operation: q.Operation.String(), ResourceType: q.Type.String(), ResourceName: q.Name,
		Allowed: e.Allowed, Rule: e.String(), More: e.More,
	}
	if e.Deciding != nil {
		row := aclRowOf(*e.Deciding)
		j.Deciding = &row
	}
	for _, c := range e.Candidates {
		j.Candidates = append(j.Candidates, jsonCandidate{aclRowOf(c.Binding), c.Mismatch == acl.Applies, c.Mismatch.String()})
	}
	return j
}
