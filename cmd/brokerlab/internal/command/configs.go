package command

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// Entity types of kafka-configs.sh.
const (
	typeTopics        = "topics"
	typeClients       = "clients"
	typeUsers         = "users"
	typeBrokers       = "brokers"
	typeBrokerLoggers = "broker-loggers"
	typeIPs           = "ips"
	typeClientMetrics = "client-metrics"
	typeGroups        = "groups"
)

// entityTypes are all of them, in the order in which Kafka's tool names them.
func entityTypes() []string {
	return []string{typeBrokerLoggers, typeTopics, typeClients, typeUsers, typeBrokers, typeIPs, typeClientMetrics, typeGroups}
}

// configsOptions are the flags of kafka-configs.sh (ConfigCommand.java). Those that take one value are lists, because Kafka
// refuses a second one with a text of its own.
type configsOptions struct {
	bootstrapOptions

	alter, describe, all     bool
	types                    []string // --entity-type
	names                    []string // --entity-name and --entity-default, "" for the latter, in the order given
	named, defaulted         bool     // whether there was an --entity-name, an --entity-default
	add, addFile, deleteKeys []string
	short                    []shortEntity
	format                   format
}

// shortEntity is a flag such as --topic or --broker-defaults.
type shortEntity struct {
	flag, kind, usage string
	defaults          bool
	given             bool
	names             []string
}

func shortEntities() []shortEntity {
	return []shortEntity{
		{flag: "topic", kind: typeTopics, usage: "a topic's `name`"},
		{flag: "client", kind: typeClients, usage: "a client's `id`"},
		{flag: "user", kind: typeUsers, usage: "a user's principal `name`"},
		{flag: "broker", kind: typeBrokers, usage: "a broker's `id`"},
		{flag: "broker-logger", kind: typeBrokerLoggers, usage: "the `id` of the broker whose loggers are meant"},
		{flag: "ip", kind: typeIPs, usage: "an `address`"},
		{flag: "client-metrics", kind: typeClientMetrics, usage: "the `name` of a subscription to client metrics"},
		{flag: "group", kind: typeGroups, usage: "a group's `id`"},
		{flag: "client-defaults", kind: typeClients, usage: "all clients that have none of their own", defaults: true},
		{flag: "user-defaults", kind: typeUsers, usage: "all users that have none of their own", defaults: true},
		{flag: "broker-defaults", kind: typeBrokers, usage: "all brokers that have none of their own", defaults: true},
		{flag: "ip-defaults", kind: typeIPs, usage: "all addresses that have none of their own", defaults: true},
	}
}

// newConfigs is kafka-configs.sh under brokerlab's name.
func newConfigs(env Env) *cobra.Command {
	c := newConfigsScript(env)
	c.Use = "configs --bootstrap-server host:port --describe|--alter"
	c.Example = underOurName(c.Example)
	return c
}

// newConfigsScript is kafka-configs.sh, with its command line and --format.
func newConfigsScript(env Env) *cobra.Command {
	o := &configsOptions{short: shortEntities()}
	c := &cobra.Command{
		Use:   "kafka-configs.sh --bootstrap-server host:port --describe|--alter",
		Short: "Describe and alter configs of topics, brokers, users, clients, addresses and groups",
		Long: `Describe and alter what is configured for topics, brokers and their loggers, users (SCRAM credentials and quotas), clients,
addresses, groups and client metrics, with the command line and the output of kafka-configs.sh.

Needs DESCRIBE_CONFIGS and ALTER_CONFIGS on the topic, the group or the cluster; for SCRAM credentials DESCRIBE and ALTER
on the cluster. Exit status: 0 when done, else 1.`,
		Example: `  kafka-configs.sh --bootstrap-server localhost:9092 --describe --broker 1 --all
  kafka-configs.sh --bootstrap-server localhost:9092 --alter --broker-defaults \
    --add-config max.connections=2000
  kafka-configs.sh --bootstrap-server localhost:9092 --alter --user alice \
    --add-config 'SCRAM-SHA-256=[iterations=8192,password=alice-secret]'
  kafka-configs.sh --bootstrap-server localhost:9092 --alter --client app \
    --add-config consumer_byte_rate=1000000
  kafka-configs.sh --bootstrap-server localhost:9092 --describe --entity-type ips --format json`,
		Args:              cobra.ArbitraryArgs, // ignored, as Kafka's parser does
		RunE:              func(c *cobra.Command, _ []string) error { return o.run(c, env) },
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	addKafkaBootstrap(c, &o.bootstrapOptions, env)
	f := c.Flags()
	f.BoolVar(&o.alter, "alter", false, "alter the configs of the entity")
	f.BoolVar(&o.describe, "describe", false, "list the configs of the entity, or of all of the type")
	f.BoolVar(&o.all, "all", false, "with --describe: also what is static or the default")
	f.StringArrayVar(&o.types, "entity-type", nil, "`type` of the entity: topics, clients, users, brokers, broker-loggers, ips, client-metrics, groups")
	f.Func("entity-name", "`name` of the entity", func(name string) error {
		o.names, o.named = append(o.names, name), true
		return nil
	})
	f.BoolFunc("entity-default", "the default of clients, users, brokers or ips", func(string) error {
		o.names, o.defaulted = append(o.names, ""), true
		return nil
	})
	f.StringArrayVar(&o.add, "add-config", nil, "what to set, `key=value,key=[a,b]`: brackets keep commas together")
	f.StringArrayVar(&o.addFile, "add-config-file", nil, "a properties `file` of what to set")
	f.StringArrayVar(&o.deleteKeys, "delete-config", nil, "what to delete, `key,key`")
	for i := range o.short {
		s := &o.short[i]
		if s.defaults {
			f.BoolFunc(s.flag, s.usage, func(string) error { s.given, s.names = true, []string{""}; return nil })
			continue
		}
		f.Func(s.flag, s.usage, func(name string) error { s.given, s.names = true, append(s.names, name); return nil })
	}
	addFormat(c, &o.format)
	return c
}

// run does what the command line says and speaks as Kafka's tool does: what it finds itself is one line of standard error,
// what the cluster refuses is two, the arguments and the exception.
func (o *configsOptions) run(c *cobra.Command, env Env) error {
	if len(env.args) == 0 && c.HasParent() {
		return c.Help()
	}
	if len(env.args) == 0 {
		return toolError(env, "This tool helps to manipulate and describe entity config for a topic, client, user, broker, ip, client-metrics or group")
	}
	types, names, err := o.check(c)
	if err == nil {
		var cl *cluster
		if cl, err = o.open(env); err == nil {
			err = o.do(c.Context(), env, cl, types, names)
			cl.kgo.Close()
		}
	}
	if err == nil {
		return nil
	}
	text := err.Error()
	if text == "unknown broker" { // kgo's, which has no name; Kafka's tool waits for a minute and says that
		text = "there is no broker " + names[0]
	}
	if _, ok := errors.AsType[*javaExceptionError](err); ok {
		text = fmt.Sprintf("Error while executing config command with args '%s'\njava.util.concurrent.ExecutionException: %v", strings.Join(env.args, " "), err)
	}
	return toolError(env, text)
}

func (o *configsOptions) do(ctx context.Context, env Env, cl *cluster, types, names []string) error {
	if o.describe {
		return o.runDescribe(ctx, env, cl, types, names)
	}
	set, err := o.toSet()
	if err != nil {
		return err
	}
	var unset []string
	for _, list := range o.deleteKeys {
		for key := range strings.SplitSeq(list, ",") {
			unset = append(unset, strings.TrimSpace(key))
		}
	}
	err = alterEntity(ctx, cl, types, names, set, unset)
	if err != nil {
		return err
	}
	if names[0] == "" {
		_, err = fmt.Fprintf(env.Stdout, "Completed updating default config for %s in the cluster.\n", types[0])
	} else {
		_, err = fmt.Fprintf(env.Stdout, "Completed updating config for %s %s.\n", singular(types[0]), names[0])
	}
	return err
}

// singular drops the last letter, as Kafka does: even client-metrics becomes client-metric.
func singular(kind string) string { return kind[:len(kind)-1] }

// check makes types and names of the entity flags, or refuses the command line in the order and with the texts of Kafka.
//
//nolint:gocognit,revive,staticcheck // one check after another in Kafka's order; ST1005: Kafka's texts
func (o *configsOptions) check(c *cobra.Command) (types, names []string, err error) {
	given := c.Flags().Changed
	types, names = slices.Clone(o.types), slices.Clone(o.names)
	short := false
	for i := range o.short {
		if s := &o.short[i]; s.given {
			short, types, names = true, append(types, s.kind), append(names, s.names[0])
		}
	}
	named := slices.ContainsFunc(names, func(name string) bool { return name != "" })
	defaulted := slices.Contains(names, "")
	one := func(kinds ...string) bool {
		return slices.ContainsFunc(kinds, func(kind string) bool { return slices.Contains(types, kind) })
	}
	switch {
	case o.alter == o.describe:
		return nil, nil, errors.New("Command must include exactly one action: --describe, --alter")
	case o.describe && given("add-config"):
		return nil, nil, optionClash("describe", "add-config")
	case o.describe && given("delete-config"):
		return nil, nil, optionClash("describe", "delete-config")
	}
	if twice := repeated(types); len(twice) > 0 {
		return nil, nil, fmt.Errorf("Duplicate entity type(s) specified: %s", strings.Join(twice, ","))
	}
	if !given("bootstrap-server") && !given("bootstrap-controller") {
		return nil, nil, errors.New("Either --bootstrap-server or --bootstrap-controller must be specified.")
	}
	for _, kind := range types {
		if !slices.Contains(entityTypes(), kind) {
			return nil, nil, fmt.Errorf("Invalid entity type %s, the entity type must be one of %s with a --bootstrap-server or --bootstrap-controller argument",
				kind, strings.Join(entityTypes(), ", "))
		}
	}
	switch {
	case len(types) == 0:
		err = errors.New("At least one entity type must be specified")
	case len(types) > 1 && (len(types) != 2 || !slices.Contains(types, typeUsers) || !slices.Contains(types, typeClients)):
		err = errors.New("Only 'users' and 'clients' entity types may be specified together")
	case short && (len(o.types) > 0 || o.named || o.defaulted):
		err = errors.New("--entity-{type,name,default} should not be used in conjunction with specific entity flags")
	case given("bootstrap-server") && given("bootstrap-controller"):
		err = errors.New("Only one of --bootstrap-server or --bootstrap-controller can be specified")
	default:
		err = o.once()
	}
	if err != nil {
		return nil, nil, err
	}
	err = checkNames(types, names)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case o.describe && o.defaulted && !one(typeUsers, typeClients, typeBrokers, typeIPs):
		err = fmt.Errorf("--entity-default must not be specified with --describe of %s", strings.Join(types, ","))
	case o.describe && one(typeBrokerLoggers) && !named:
		err = fmt.Errorf("An entity name must be specified with --describe of %s", strings.Join(types, ","))
	case o.describe:
	case one(typeUsers, typeClients, typeBrokers, typeIPs) && !named && !defaulted:
		err = errors.New("An entity-name or default entity must be specified with --alter of users, clients, brokers or ips")
	case !one(typeUsers, typeClients, typeBrokers, typeIPs) && !named:
		err = fmt.Errorf("An entity name must be specified with --alter of %s", strings.Join(types, ","))
	case given("add-config") && given("add-config-file"):
		err = errors.New("Only one of --add-config or --add-config-file must be specified")
	case !given("add-config") && !given("add-config-file") && !given("delete-config"):
		err = errors.New("At least one of --add-config, --add-config-file, or --delete-config must be specified with --alter")
	case len(types) != len(names):
		err = errors.New("An entity name must be specified for every entity type")
	}
	return types, names, err
}

// once refuses a second value where Kafka takes one.
func (o *configsOptions) once() error {
	twice := func(flag string, values []string) error {
		if len(values) > 1 {
			return fmt.Errorf("Found multiple arguments for option %s, but you asked for only one", flag) //nolint:staticcheck // ST1005: Kafka's text
		}
		return nil
	}
	problems := []error{twice("add-config", o.add), twice("add-config-file", o.addFile)}
	for _, s := range o.short {
		problems = append(problems, twice(s.flag, s.names))
	}
	return errors.Join(problems...)
}

// checkNames refuses names that cannot be of a broker or an address.
//
//nolint:staticcheck // ST1005: Kafka's texts
func checkNames(types, names []string) error {
	for _, name := range names {
		if name == "" {
			continue
		}
		if slices.Contains(types, typeBrokers) || slices.Contains(types, typeBrokerLoggers) {
			if _, err := strconv.ParseInt(name, 10, 32); err != nil {
				return fmt.Errorf("The entity name for %s must be a valid integer broker id, but it is: %s", types[0], name)
			}
		}
		if slices.Contains(types, typeIPs) {
			if _, err := net.ResolveIPAddr("ip", name); err != nil && !isJavaAddress(name) {
				return fmt.Errorf("The entity name for %s must be a valid IP or resolvable host, but it is: %s", types[0], name)
			}
		}
	}
	return nil
}

// isJavaAddress tells of spellings that Java's tool takes for addresses and Go does not: [::1], and 127.1 for 127.0.0.1. The broker judges
// them.
func isJavaAddress(name string) bool {
	if inside, ok := strings.CutPrefix(name, "["); ok {
		inside, ok = strings.CutSuffix(inside, "]")
		return ok && net.ParseIP(inside) != nil
	}
	return strings.Trim(name, "0123456789.") == "" && strings.Count(name, ".") < 3
}

// repeated are the members of all that are there more than once.
func repeated(all []string) []string {
	var twice []string
	for i, s := range all {
		if slices.Contains(all[:i], s) && !slices.Contains(twice, s) {
			twice = append(twice, s)
		}
	}
	return twice
}
