package command

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// importOptions are the flags of brokerlab acls import.
type importOptions struct {
	bootstrapOptions

	files  []string
	from   string
	yes    bool
	format format
}

func newACLsImport(env Env) *cobra.Command {
	var o importOptions
	c := &cobra.Command{
		Use:   "import --bootstrap-server host:port --acls FILE",
		Short: "Create the rules of files in a cluster, after a preview",
		Long: `Create the rules of files in a cluster, those that it does not have yet. Without --yes it only says what it would do. Rules of
the cluster that are in no file stay; they are counted. Hosts are kept byte for byte: rules that the cluster refuses, such as
ranges below metadata.version 4.4-IV1, are named and not made wider.

Needs DESCRIBE on the cluster, with --yes also ALTER. Exit status: 0 when the cluster has all the rules or, without --yes,
could be asked for them; 1 when it refused some; 2 when files cannot be read.`,
		Example: `  brokerlab acls import --bootstrap-server localhost:9092 --acls examples/acls/acls.txt
  brokerlab acls import --bootstrap-server localhost:9092 --acls examples/acls/acls.txt --yes`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.Context(), env) },
	}
	addBootstrap(c, &o.bootstrapOptions)
	f := c.Flags()
	f.StringArrayVar(&o.files, "acls", nil, "a `file` of rules, - is standard input; may be repeated")
	addACLFormat(c, &o.from, "from", "what kind of files they are")
	f.BoolVar(&o.yes, "yes", false, "create the rules, not only say which")
	addFormat(c, &o.format)
	return c
}

// jsonImport is the document of --format json.
type jsonImport struct {
	Created  []aclRow      `json:"created"` // or, without --yes, to be created
	Present  int           `json:"present"`
	Others   int           `json:"others"` // rules of the cluster that are in no file
	Refused  []jsonRefused `json:"refused"`
	Previews bool          `json:"preview"`
}

type jsonRefused struct {
	aclRow

	Error string `json:"error"`
}

func (o *importOptions) run(ctx context.Context, env Env) error {
	if len(o.files) == 0 {
		return usage("say which rules: --acls file")
	}
	var rules []acl.Binding
	var errs []error
	for _, path := range o.files {
		entries, err := readACLFile(env, path, o.from)
		errs = append(errs, err)
		for _, e := range entries {
			rules = append(rules, e.Binding)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &ExitError{Code: 2, Err: err}
	}
	rules = unique(rules)
	cl, err := o.open(env)
	if err != nil {
		return &ExitError{Code: 2, Err: err}
	}
	defer cl.kgo.Close()
	present, err := describeACLs(ctx, cl, nil)
	if err != nil {
		return fmt.Errorf("ask %s for its rules: %w", o.servers, err)
	}
	has := make(map[acl.Binding]struct{}, len(present))
	for _, b := range present {
		has[b] = struct{}{}
	}
	missing := slices.DeleteFunc(slices.Clone(rules), func(b acl.Binding) bool {
		_, there := has[b]
		return there
	})
	known := len(rules) - len(missing)
	done := jsonImport{Created: []aclRow{}, Present: known, Others: len(present) - known, Refused: []jsonRefused{}, Previews: !o.yes}
	created, refused := missing, []error{}
	if o.yes {
		created, refused = o.create(ctx, cl, missing, &done)
	}
	for _, b := range created {
		done.Created = append(done.Created, aclRowOf(b))
	}
	if o.format == formatJSON {
		err = printJSON(env.Stdout, done)
	} else {
		err = o.print(env, created, &done)
	}
	for _, r := range refused {
		fmt.Fprintf(env.Stderr, "brokerlab: %v\n", r)
	}
	if err == nil && len(refused) > 0 {
		return &ExitError{Code: 1}
	}
	return err
}

// manyRules is how many rules a request creates: Kafka takes 10,000 and no more.
const manyRules = 5_000

// create makes rules, many at once; where a request has some refused, one by one, to know which.
func (*importOptions) create(ctx context.Context, cl *cluster, rules []acl.Binding, done *jsonImport) (created []acl.Binding, refused []error) {
	for chunk := range slices.Chunk(rules, manyRules) {
		if createACLs(ctx, cl, chunk) == nil {
			created = append(created, chunk...)
			continue
		}
		for _, b := range chunk { // creating one that is there already changes nothing
			err := createACLs(ctx, cl, []acl.Binding{b})
			if err == nil {
				created = append(created, b)
				continue
			}
			refused = append(refused, fmt.Errorf("%s: %w", ruleText(b), err))
			done.Refused = append(done.Refused, jsonRefused{aclRowOf(b), err.Error()})
			if ctx.Err() != nil {
				return created, refused
			}
		}
	}
	return created, refused
}

func (o *importOptions) print(env Env, created []acl.Binding, done *jsonImport) error {
	for _, b := range created {
		if err := printHanging(env.Stdout, "+ ", ruleText(b)); err != nil {
			return err
		}
	}
	text := fmt.Sprintf("%d created, %d were there already, %d of the cluster's are in no file and stay, %d refused.", len(created), done.Present, done.Others, len(done.Refused))
	if !o.yes {
		text = fmt.Sprintf("%d to create, %d are there already, %d of the cluster's are in no file and stay. Nothing is changed yet: --yes creates them.",
			len(created), done.Present, done.Others)
	}
	return printHanging(env.Stdout, "", text)
}
