package command

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// aclsOptions are the flags of kafka-acls.sh (AclCommand.java) and the format of the list, which is brokerlab's own.
type aclsOptions struct {
	bootstrapOptions

	add, remove, list                               bool
	topics, groups, transactionalIDs, tokens, users []string
	cluster                                         bool
	patterns                                        []string // one, which Kafka insists on with a text of its own
	operations                                      []string
	allow, deny, allowHosts, denyHosts              []string
	principals                                      []string
	producer, consumer, idempotent, force           bool
	format                                          format
}

// newACLsScript is kafka-acls.sh, with exactly its command line and --format.
func newACLsScript(env Env) *cobra.Command {
	var o aclsOptions
	c := &cobra.Command{
		Use:   "kafka-acls.sh --bootstrap-server host:port --add|--remove|--list",
		Short: "This tool helps to manage acls on kafka.",
		Long: `Add, remove and list the rules (ACLs) of a cluster, with the command line and the output of kafka-acls.sh. A host is
"*", an address as Java prints it, or, from metadata.version 4.4-IV1 on, a range such as 10.0.0.0/8.

Needs DESCRIBE on the cluster, to add and remove also ALTER. Exit status: 0 when done, else 1.`,
		Example: `  kafka-acls.sh --bootstrap-server localhost:9092 --list
  kafka-acls.sh --bootstrap-server localhost:9092 --list --format json
  kafka-acls.sh --bootstrap-server localhost:9092 --add --allow-principal User:alice \
    --allow-host 10.0.0.0/8 --operation Read --topic orders
  kafka-acls.sh --bootstrap-server localhost:9092 --remove --force --topic orders`,
		Args:              cobra.ArbitraryArgs, // ignored, as Kafka's parser does: people write --cluster kafka-cluster
		RunE:              func(c *cobra.Command, _ []string) error { return runACLs(c, env, &o) },
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	f := c.Flags()
	addKafkaBootstrap(c, &o.bootstrapOptions, env)
	f.BoolVar(&o.add, "add", false, "add rules")
	f.BoolVar(&o.remove, "remove", false, "remove rules")
	f.BoolVar(&o.list, "list", false, "list rules, all or those of the resources given")
	f.StringArrayVar(&o.topics, "topic", nil, "`name` of a topic, * is all; may be repeated, as all resources")
	f.StringArrayVar(&o.groups, "group", nil, "`name` of a consumer group")
	f.StringArrayVar(&o.transactionalIDs, "transactional-id", nil, "a transactional `id`")
	f.StringArrayVar(&o.tokens, "delegation-token", nil, "`id` of a delegation token")
	f.StringArrayVar(&o.users, "user-principal", nil, "a principal, `Type:name`, as the resource of CreateTokens and DescribeTokens")
	f.BoolVar(&o.cluster, "cluster", false, "the cluster")
	f.StringArrayVar(&o.patterns, "resource-pattern-type", []string{"literal"}, "how names stand for resources: literal or prefixed; to list and remove also any or match")
	f.StringArrayVar(&o.operations, "operation", []string{"All"}, "an `operation`, such as Read; may be repeated")
	f.StringArrayVar(&o.allow, "allow-principal", nil, "a `Type:name` that is allowed; may be repeated")
	f.StringArrayVar(&o.deny, "deny-principal", nil, "a `Type:name` that is denied; may be repeated")
	f.StringArrayVar(&o.allowHosts, "allow-host", nil, "a `host` from which --allow-principal is allowed (default *); may be repeated")
	f.StringArrayVar(&o.denyHosts, "deny-host", nil, "a `host` from which --deny-principal is denied (default *); may be repeated")
	f.StringArrayVar(&o.principals, "principal", nil, "list only rules of this `Type:name`; may be repeated")
	f.BoolVar(&o.producer, "producer", false, "what a producer needs: Write, Describe and Create on topics")
	f.BoolVar(&o.consumer, "consumer", false, "what a consumer needs: Read and Describe on topics, Read on groups")
	f.BoolVar(&o.idempotent, "idempotent", false, "with --producer: also IdempotentWrite on the cluster")
	f.BoolVar(&o.force, "force", false, "do not ask before removing")
	addFormat(c, &o.format)
	return c
}

// runACLs does what the command line says. Errors of the cluster are said on stdout, as Kafka's tool has it.
func runACLs(c *cobra.Command, env Env, o *aclsOptions) error {
	if len(env.args) == 0 && c.HasParent() {
		return c.Help()
	}
	if len(env.args) == 0 {
		return toolError(env, "This tool helps to manage acls on kafka.")
	}
	kind, rules, err := o.plan(c)
	if thrown, ok := errors.AsType[*javaExceptionError](err); ok {
		return failACLs(env, thrown.text)
	}
	if err != nil {
		return toolError(env, err.Error())
	}
	cl, err := o.open(env)
	if err == nil {
		defer cl.kgo.Close()
		switch {
		case o.add:
			err = o.runAdd(c.Context(), env, cl, rules)
		case o.remove:
			err = o.runRemove(c.Context(), env, cl, rules)
		default:
			err = o.runList(c.Context(), env, cl, o.resources(kind))
		}
	}
	if err == nil {
		return nil
	}
	return failACLs(env, err.Error())
}

// failACLs says an error as Kafka's tool does, on standard output, and ends with status 1.
func failACLs(env Env, text string) error {
	_, err := fmt.Fprintf(env.Stdout, "Error while executing ACL command: %s\n", text)
	return &ExitError{Code: 1, Err: err}
}

// illegal is what Kafka's tool throws, rather than refuses with its usage.
func illegal(text string) error {
	return &javaExceptionError{"java.lang.IllegalArgumentException", text}
}

// aclRules are the rules of one resource; to remove, none are all.
type aclRules struct {
	resource acl.Pattern
	entries  []acl.Binding
}

// plan checks the command line and makes rules of it.
func (o *aclsOptions) plan(c *cobra.Command) (acl.PatternType, []aclRules, error) {
	given := c.Flags().Changed
	kind, err := acl.ParsePatternType(o.patterns[0])
	switch {
	case len(o.patterns) > 1:
		return 0, nil, illegal("Found multiple arguments for option resource-pattern-type, but you asked for only one")
	case err != nil:
		return 0, nil, illegal(fmt.Sprintf("Cannot parse argument '%s' of option resource-pattern-type", o.patterns[0]))
	case given("bootstrap-server") && given("bootstrap-controller"):
		return 0, nil, errors.New("Only one of --bootstrap-server or --bootstrap-controller must be specified") //nolint:staticcheck // Kafka's text
	case !given("bootstrap-server") && !given("bootstrap-controller"):
		return 0, nil, errors.New("One of --bootstrap-server or --bootstrap-controller must be specified") //nolint:staticcheck // Kafka's text
	}
	actions := 0
	for _, on := range []bool{o.add, o.remove, o.list} {
		if on {
			actions++
		}
	}
	switch {
	case actions != 1:
		err = errors.New("Command must include exactly one action: --list, --add, --remove. ") //nolint:staticcheck // Kafka's text
	case clash(given) != nil:
		err = clash(given)
	case given("principal") && !o.list:
		err = errors.New("The --principal option is only available if --list is set") //nolint:staticcheck // Kafka's text
	case o.producer && len(o.topics) == 0:
		err = errors.New("With --producer you must specify a --topic") //nolint:staticcheck // Kafka's text
	case o.idempotent && !o.producer:
		err = errors.New("The --idempotent option is only available if --producer is set") //nolint:staticcheck // Kafka's text
	case o.consumer && (len(o.topics) == 0 || len(o.groups) == 0 || !o.producer && (o.cluster || len(o.transactionalIDs) > 0)):
		err = errors.New("With --consumer you must specify a --topic and a --group and no --cluster or --transactional-id option should be specified.") //nolint:revive,staticcheck // Kafka's text
	case o.add && kind != acl.Literal && kind != acl.Prefixed:
		err = fmt.Errorf("A '--resource-pattern-type' value of '%s' is not valid when adding acls.", kind) //nolint:revive,staticcheck // Kafka's text
	}
	if err != nil || o.list {
		return kind, nil, errors.Join(err, checkPrincipals(o.principals))
	}
	rules, err := o.rules(kind)
	return kind, rules, err
}

// clash refuses flags that exclude each other (AclCommandOptions.checkArgs).
func clash(given func(string) bool) error {
	for _, row := range [][]string{
		{"list", "producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal"},
		{"producer", "operation", "deny-principal", "deny-host"},
		{"consumer", "operation", "deny-principal", "deny-host"},
	} {
		for _, other := range row[1:] {
			if given(row[0]) && given(other) {
				return optionClash(row[0], other)
			}
		}
	}
	return nil
}

// checkPrincipals refuses what has no type and name.
func checkPrincipals(all []string) error {
	for _, p := range all {
		if p = strings.TrimSpace(p); !strings.Contains(p, ":") {
			return illegal("expected a string in format principalType:principalName but got " + p)
		}
	}
	return nil
}

// resources are those that the command line names.
func (o *aclsOptions) resources(kind acl.PatternType) []acl.Pattern {
	var all []acl.Pattern
	add := func(t acl.ResourceType, names []string) {
		for _, name := range names {
			if p := (acl.Pattern{Type: t, Name: strings.TrimSpace(name), Kind: kind}); !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	add(acl.Topic, o.topics)
	if kind == acl.Literal && (o.cluster || o.idempotent) {
		add(acl.Cluster, []string{acl.ClusterName})
	}
	add(acl.Group, o.groups)
	add(acl.TransactionalID, o.transactionalIDs)
	add(acl.DelegationToken, o.tokens)
	add(acl.User, o.users)
	return all
}

// rules are those to add or to remove.
func (o *aclsOptions) rules(kind acl.PatternType) ([]aclRules, error) {
	if err := checkPrincipals(slices.Concat(o.allow, o.deny)); err != nil {
		return nil, err
	}
	var plain []acl.Operation
	for _, text := range o.operations {
		plain = append(plain, parseOperation(text))
	}
	resources := o.resources(kind)
	if len(resources) == 0 {
		return nil, errors.New("You must provide at least one resource: --topic <topic> or --cluster or --group <group> or --delegation-token <Delegation Token ID>") //nolint:staticcheck // Kafka's text
	}
	if o.idempotent && kind != acl.Literal {
		resources = append(resources, acl.Pattern{Type: acl.Cluster, Name: acl.ClusterName, Kind: acl.Literal})
	}
	var all []aclRules
	for _, r := range resources {
		ops := plain
		if o.producer || o.consumer {
			ops = o.shortcut(r.Type)
		}
		if len(ops) == 0 {
			continue
		}
		entries := o.entries(r, ops)
		if err := checkOperations(r.Type, entries); err != nil {
			return nil, err
		}
		if o.add && len(entries) == 0 {
			return nil, errors.New("You must specify one of: --allow-principal, --deny-principal when trying to add ACLs.") //nolint:revive,staticcheck // Kafka's text
		}
		all = append(all, aclRules{r, entries})
	}
	return all, nil
}

// parseOperation reads an operation as Kafka's tool does, regardless of case but without anything between its words.
func parseOperation(text string) acl.Operation {
	op, err := acl.ParseOperation(strings.TrimSpace(text))
	if err != nil || strings.ContainsAny(text, "_-") {
		return acl.UnknownOperation
	}
	return op
}

// shortcut are the operations that --producer and --consumer stand for.
func (o *aclsOptions) shortcut(t acl.ResourceType) []acl.Operation {
	var ops []acl.Operation
	if o.producer {
		switch t {
		case acl.Topic:
			ops = append(ops, acl.Write, acl.Describe, acl.Create)
		case acl.TransactionalID:
			ops = append(ops, acl.Write, acl.Describe)
		case acl.Cluster:
			if o.idempotent {
				ops = append(ops, acl.IdempotentWrite)
			}
		default:
		}
	}
	if o.consumer {
		switch t {
		case acl.Topic:
			ops = append(ops, acl.Read, acl.Describe)
		case acl.Group:
			ops = append(ops, acl.Read)
		default:
		}
	}
	return ops
}

// entries are the rules of one resource: each principal of a kind with each operation and each host of that kind.
func (o *aclsOptions) entries(r acl.Pattern, ops []acl.Operation) []acl.Binding {
	var all []acl.Binding
	add := func(permission acl.Permission, principals, hosts []string) {
		if len(hosts) == 0 {
			hosts = []string{"*"}
		}
		for _, p := range principals {
			for _, op := range ops {
				for _, host := range hosts {
					b := acl.Binding{Pattern: r, Principal: strings.TrimSpace(p), Host: strings.TrimSpace(host), Operation: op, Permission: permission}
					if !slices.Contains(all, b) {
						all = append(all, b)
					}
				}
			}
		}
	}
	add(acl.Allow, o.allow, o.allowHosts)
	add(acl.Deny, o.deny, o.denyHosts)
	return all
}

// checkOperations refuses operations that mean nothing on resources of type t.
func checkOperations(t acl.ResourceType, entries []acl.Binding) error {
	meant := append(slices.Clone(acl.Operations(t)), acl.All)
	for _, b := range entries {
		if slices.Contains(meant, b.Operation) {
			continue
		}
		if b.Operation == acl.AnyOperation {
			return illegal("operation must not be ANY")
		}
		names := make([]string, len(meant))
		for i, op := range meant {
			names[i] = op.String()
		}
		return fmt.Errorf("ResourceType %s only supports operations [%s]", t, strings.Join(names, ", "))
	}
	return nil
}

// resourceText is Kafka's ResourcePattern, or as a filter its ResourcePatternFilter, which read the same.
func resourceText(p acl.Pattern) string {
	return "ResourcePattern(resourceType=" + p.Type.String() + ", name=" + p.Name + ", patternType=" + p.Kind.String() + ")"
}

// entryText is Kafka's AccessControlEntry.
func entryText(b acl.Binding) string {
	return "(principal=" + b.Principal + ", host=" + b.Host + ", operation=" + b.Operation.String() + ", permissionType=" + b.Permission.String() + ")"
}

func entryLines(entries []acl.Binding) string {
	lines := make([]string, len(entries))
	for i, b := range entries {
		lines[i] = "\t" + entryText(b)
	}
	return strings.Join(lines, "\n")
}

func (*aclsOptions) runAdd(ctx context.Context, env Env, cl *cluster, rules []aclRules) error {
	for _, r := range rules {
		present, err := describeACLs(ctx, cl, &r.resource)
		if err != nil {
			return err
		}
		var missing []acl.Binding
		for _, b := range r.entries {
			if !slices.Contains(present, b) {
				missing = append(missing, b)
				continue
			}
			if _, err = fmt.Fprintf(env.Stdout, "Acl (pattern=%s, entry=%s) already exists.\n", resourceText(b.Pattern), entryText(b)); err != nil {
				return err
			}
		}
		if len(missing) == 0 {
			continue
		}
		if _, err = fmt.Fprintf(env.Stdout, "Adding ACLs for resource `%s`: \n %s\n\n", resourceText(r.resource), entryLines(missing)); err != nil {
			return err
		}
		if err := createACLs(ctx, cl, missing); err != nil {
			return err
		}
	}
	return nil
}

func (o *aclsOptions) runRemove(ctx context.Context, env Env, cl *cluster, rules []aclRules) error {
	answers := bufio.NewReader(env.Stdin)
	for _, r := range rules {
		filter := "`" + resourceText(r.resource) + "`"
		question := fmt.Sprintf("Are you sure you want to remove ACLs: \n %s\n from resource filter %s? (y/n)", entryLines(r.entries), filter)
		if len(r.entries) == 0 {
			question = fmt.Sprintf("Are you sure you want to delete all ACLs for resource filter %s? (y/n)", filter)
		}
		if !o.force {
			if _, err := fmt.Fprintln(env.Stdout, question); err != nil {
				return err
			}
			line, err := answers.ReadString('\n')
			if errors.Is(err, io.EOF) && line == "" {
				return errors.New("nobody answers: --force removes without asking")
			}
			if !strings.EqualFold(strings.TrimRight(line, "\r\n"), "y") {
				continue
			}
		}
		if err := deleteACLs(ctx, cl, r); err != nil {
			return err
		}
	}
	return nil
}

// aclRow is a rule in the list's JSON.
type aclRow struct {
	ResourceType string `json:"resourceType"`
	Name         string `json:"name"`
	PatternType  string `json:"patternType"`
	Principal    string `json:"principal"`
	Host         string `json:"host"`
	Operation    string `json:"operation"`
	Permission   string `json:"permissionType"`
}

func (o *aclsOptions) runList(ctx context.Context, env Env, cl *cluster, resources []acl.Pattern) error {
	filters := []*acl.Pattern{nil}
	if len(resources) > 0 {
		filters = nil
		for i := range resources {
			filters = append(filters, &resources[i])
		}
	}
	var all []acl.Binding
	for _, f := range filters {
		found, err := describeACLs(ctx, cl, f)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, compareBindings)
	all = slices.Compact(all)
	if o.format == formatJSON {
		rows := []aclRow{}
		for _, b := range all {
			if len(o.principals) == 0 || slices.Contains(o.principals, b.Principal) {
				rows = append(rows, aclRow{b.Type.String(), b.Name, b.Kind.String(), b.Principal, b.Host, b.Operation.String(), b.Permission.String()})
			}
		}
		return printJSON(env.Stdout, rows)
	}
	if len(o.principals) == 0 {
		return printACLs(env.Stdout, all)
	}
	for _, p := range o.principals {
		p = strings.TrimSpace(p)
		if _, err := fmt.Fprintf(env.Stdout, "ACLs for principal `%s`\n", p); err != nil {
			return err
		}
		its := slices.DeleteFunc(slices.Clone(all), func(b acl.Binding) bool { return b.Principal != p })
		if err := printACLs(env.Stdout, its); err != nil {
			return err
		}
	}
	return nil
}

// compareBindings orders rules by resource and then by all they have: Kafka's own order is that of a hash.
func compareBindings(a, b acl.Binding) int {
	return cmp.Or(
		cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Principal, b.Principal),
		cmp.Compare(a.Host, b.Host), cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Permission, b.Permission),
	)
}

// printACLs prints sorted rules, those of a resource together.
func printACLs(w io.Writer, all []acl.Binding) error {
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(b acl.Binding) bool { return b.Pattern != all[0].Pattern })
		if n < 0 {
			n = len(all)
		}
		if _, err := fmt.Fprintf(w, "Current ACLs for resource `%s`:\n%s\n\n", resourceText(all[0].Pattern), entryLines(all[:n])); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// describeACLs asks for the rules of a resource, or for all.
func describeACLs(ctx context.Context, cl *cluster, resource *acl.Pattern) ([]acl.Binding, error) {
	req := kmsg.NewPtrDescribeACLsRequest()
	req.ResourceType, req.ResourcePatternType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny
	req.Operation, req.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
	if resource != nil {
		req.ResourceType, req.ResourceName = kmsg.ACLResourceType(resource.Type), &resource.Name
		req.ResourcePatternType = kmsg.ACLResourcePatternType(resource.Kind)
	}
	resp, err := ask[*kmsg.DescribeACLsResponse](ctx, cl, req)
	if err != nil {
		return nil, err
	}
	var all []acl.Binding
	for _, r := range resp.Resources {
		p := acl.Pattern{Type: acl.ResourceType(r.ResourceType), Name: r.ResourceName, Kind: acl.PatternType(r.ResourcePatternType)}
		for _, e := range r.ACLs {
			all = append(all, acl.Binding{Pattern: p, Principal: e.Principal, Host: e.Host, Operation: acl.Operation(e.Operation), Permission: acl.Permission(e.PermissionType)})
		}
	}
	return all, javaError(resp.ErrorCode, resp.ErrorMessage)
}

func createACLs(ctx context.Context, cl *cluster, rules []acl.Binding) error {
	req := kmsg.NewPtrCreateACLsRequest()
	for _, b := range rules {
		c := kmsg.NewCreateACLsRequestCreation()
		c.ResourceType, c.ResourceName = kmsg.ACLResourceType(b.Type), b.Name
		c.ResourcePatternType = kmsg.ACLResourcePatternType(b.Kind)
		c.Principal, c.Host = b.Principal, b.Host
		c.Operation, c.PermissionType = kmsg.ACLOperation(b.Operation), kmsg.ACLPermissionType(b.Permission)
		req.Creations = append(req.Creations, c)
	}
	resp, err := ask[*kmsg.CreateACLsResponse](ctx, cl, req)
	if err != nil {
		return err
	}
	for _, r := range resp.Results {
		if err := javaError(r.ErrorCode, r.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}

func deleteACLs(ctx context.Context, cl *cluster, rules aclRules) error {
	req := kmsg.NewPtrDeleteACLsRequest()
	add := func(b *acl.Binding) {
		f := kmsg.NewDeleteACLsRequestFilter()
		f.ResourceType, f.ResourceName = kmsg.ACLResourceType(rules.resource.Type), &rules.resource.Name
		f.ResourcePatternType = kmsg.ACLResourcePatternType(rules.resource.Kind)
		f.Operation, f.PermissionType = kmsg.ACLOperationAny, kmsg.ACLPermissionTypeAny
		if b != nil {
			f.Principal, f.Host = &b.Principal, &b.Host
			f.Operation, f.PermissionType = kmsg.ACLOperation(b.Operation), kmsg.ACLPermissionType(b.Permission)
		}
		req.Filters = append(req.Filters, f)
	}
	if len(rules.entries) == 0 {
		add(nil)
	}
	for i := range rules.entries {
		add(&rules.entries[i])
	}
	resp, err := ask[*kmsg.DeleteACLsResponse](ctx, cl, req)
	if err != nil {
		return err
	}
	for _, r := range resp.Results {
		if err := javaError(r.ErrorCode, r.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}

// javaError is how Kafka's tools name an error of the cluster: the class of the exception and its text, which for a broker
// that gives none, not even an empty one, is the error's own. Nil for code 0.
func javaError(code int16, message *string) error {
	err := kerr.TypedErrorForCode(code)
	if err == nil {
		return nil
	}
	text := err.Description
	if message != nil {
		text = *message
	}
	return &javaExceptionError{"org.apache.kafka.common.errors." + javaClass(err.Message), text}
}

// javaClass is the exception of an error's name (Errors.java): nearly always the name in camel case.
func javaClass(name string) string {
	switch name {
	case "INVALID_CONFIG":
		return "InvalidConfigurationException"
	case "UNKNOWN_SERVER_ERROR":
		return "UnknownServerException"
	case "REQUEST_TIMED_OUT":
		return "TimeoutException"
	case "FEATURE_UPDATE_FAILED":
		return "FeatureUpdateFailedException"
	}
	var b strings.Builder
	for word := range strings.SplitSeq(strings.TrimSuffix(name, "_FAILED"), "_") {
		b.WriteString(word[:1] + strings.ToLower(word[1:]))
	}
	return b.String() + "Exception"
}
