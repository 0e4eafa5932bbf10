package command

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/brokerlab/brokerlab/broker/protocol"
)

type clientsDiffOptions struct {
	clientsOptions

	by applicationKey
}

// applicationKey is the value of --by: what the instances of one application have in common.
type applicationKey string

// String, Set and Type make it a flag that refuses other words.
func (k *applicationKey) String() string { return string(*k) }

// Set takes one of the words.
func (k *applicationKey) Set(s string) error {
	if !slices.Contains([]string{"principal", "client-id", "group", "software"}, s) {
		return fmt.Errorf("%q is not what instances have in common: use principal, client-id, group or software", s)
	}
	*k = applicationKey(s)
	return nil
}

// Type names the value in --help.
func (*applicationKey) Type() string { return "principal|client-id|group|software" }

func newClientsDiff(env Env) *cobra.Command {
	o := clientsDiffOptions{by: "principal"}
	c := &cobra.Command{
		Use:   "diff --bootstrap-server host:port",
		Short: "Tell in what the instances of one application differ",
		Long: `Tell in what the instances of one application differ: for each key that has more than one value among them, the values,
how many instances have each, and some of those. What has to differ (client.id, group.instance.id, transactional.id) is
left out, and so are values that were redacted.

Instances of one application are clients of one software that have the principal in common, or with --by the client id,
group.id or nothing but the software. Needs DESCRIBE on the cluster. Exit status: 0 when nothing differs, else 1.`,
		Example: `  brokerlab clients diff --bootstrap-server localhost:9092
  brokerlab clients diff --bootstrap-server localhost:9092 --by group --principal User:orders`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c, env, true, func(rows []pusher, asked error) error { return o.print(env, rows, asked) })
		},
	}
	o.add(c)
	c.Flags().Var(&o.by, "by", "what the instances of one application have in common")
	return c
}

// application is clients that are taken for instances of one program.
type application struct {
	name      string
	instances []instance
}

// instance is one configuration, and who has pushed it.
type instance struct {
	*pusher

	configuration *protocol.DescribeClientConfigsResponseConfiguration
}

func (i instance) name() string { return shown(i.ClientID) + " " + shown(i.ClientAddress) }

// applications are the clients by what they have in common, in the order of their names.
func (o *clientsDiffOptions) applications(rows []pusher) []application {
	found := map[string]*application{}
	for i := range rows {
		r := &rows[i]
		for j := range r.Configurations {
			k := &r.Configurations[j]
			name := shown(r.SoftwareName)
			switch o.by {
			case "client-id":
				name = shown(r.ClientID) + "  " + name
			case "group":
				name = "group " + shown(valueOf(k, "group.id")) + "  " + name
			case "principal":
				name = shown(r.Principal) + "  " + name
			}
			if found[name] == nil {
				found[name] = &application{name: name}
			}
			found[name].instances = append(found[name].instances, instance{r, k})
		}
	}
	var all []application
	for _, name := range slices.Sorted(maps.Keys(found)) {
		all = append(all, *found[name])
	}
	return all
}

func valueOf(k *protocol.DescribeClientConfigsResponseConfiguration, key string) string {
	i := slices.IndexFunc(k.Entries, func(e protocol.DescribeClientConfigsResponseEntry) bool { return e.Key == key })
	if i < 0 {
		return ""
	}
	return k.Entries[i].Value
}

// jsonDifference is one key whose values differ among the instances of an application.
type jsonDifference struct {
	Application string      `json:"application"`
	Instances   int         `json:"instances"`
	Key         string      `json:"key"`
	Values      []jsonValue `json:"values"` // what most have comes first
}

type jsonValue struct {
	Value     *string  `json:"value"` // null: was not pushed
	Instances int      `json:"instances"`
	Who       []string `json:"who"` // client id and address
}

// differences compares the instances key by key.
func (a *application) differences() []jsonDifference {
	keys := map[string]bool{}
	for _, i := range a.instances {
		for _, e := range i.configuration.Entries {
			keys[e.Key] = keys[e.Key] || e.Redacted
		}
	}
	for _, own := range []string{"client.id", "group.instance.id", "transactional.id"} {
		delete(keys, own)
	}
	var all []jsonDifference
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if redacted := keys[key]; redacted {
			continue
		}
		if values := a.values(key); len(values) > 1 {
			all = append(all, jsonDifference{Application: a.name, Instances: len(a.instances), Key: key, Values: values})
		}
	}
	return all
}

// values are those of a key, what most instances have first.
func (a *application) values(key string) []jsonValue {
	const absent = "\x00" // no value: a broker escapes control characters
	who := map[string][]string{}
	for _, i := range a.instances {
		value := absent
		for _, e := range i.configuration.Entries {
			if e.Key == key {
				value = e.Value
			}
		}
		who[value] = append(who[value], i.name())
	}
	var all []jsonValue
	for value, names := range who {
		v := jsonValue{Instances: len(names), Who: names}
		if value != absent {
			v.Value = &value
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b jsonValue) int {
		return cmp.Or(cmp.Compare(b.Instances, a.Instances), cmp.Compare(pushedValue(a.Value), pushedValue(b.Value)))
	})
	return all
}

func pushedValue(v *string) string {
	if v == nil {
		return "(not pushed)"
	}
	return shown(*v)
}

func (o *clientsDiffOptions) print(env Env, rows []pusher, asked error) error {
	differ := []jsonDifference{} // an empty list, not null
	for _, a := range o.applications(rows) {
		differ = append(differ, a.differences()...)
	}
	var err error
	if o.format == formatJSON {
		err = printJSON(env.Stdout, struct {
			Differences []jsonDifference `json:"differences"`
			Errors      []jsonError      `json:"errors"`
		}{differ, jsonErrors(asked)})
	} else {
		err = printDifferences(env, differ)
	}
	if err == nil && asked == nil && len(differ) > 0 {
		return &ExitError{Code: 1}
	}
	return err
}

func printDifferences(env Env, differ []jsonDifference) error {
	for first := 0; first < len(differ); {
		end := first
		table := [][]string{{"  KEY", "VALUE", "INSTANCES", "WHO"}}
		for ; end < len(differ) && differ[end].Application == differ[first].Application; end++ {
			for i, v := range differ[end].Values {
				key := "  " + shown(differ[end].Key)
				if i > 0 {
					key = ""
				}
				table = append(table, []string{key, pushedValue(v.Value), strconv.Itoa(v.Instances), some(v.Who)})
			}
		}
		_, err := fmt.Fprintf(env.Stdout, "%s: %s, %s\n", differ[first].Application, plural(differ[first].Instances, "instance"), differing(end-first))
		if err != nil {
			return err
		}
		const key, value, who = 0, 1, 3
		if err := printTable(env.Stdout, table, key, value, who); err != nil {
			return err
		}
		first = end
	}
	return nil
}

func differing(n int) string {
	if n == 1 {
		return "1 key differs"
	}
	return fmt.Sprintf("%d keys differ", n)
}

// some names the first of many.
func some(who []string) string {
	const most = 2
	if len(who) <= most {
		return strings.Join(who, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(who[:most], ", "), len(who)-most)
}
