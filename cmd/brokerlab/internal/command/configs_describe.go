package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// configRow is a config in the JSON of --describe.
type configRow struct {
	EntityType string       `json:"entityType"`
	EntityName *string      `json:"entityName"` // nil is the default entity
	Name       string       `json:"name"`
	Value      *string      `json:"value"`
	Sensitive  bool         `json:"sensitive"`
	Source     string       `json:"source,omitempty"`
	Synonyms   []synonymRow `json:"synonyms,omitempty"`
}

type synonymRow struct {
	Source string  `json:"source"`
	Name   string  `json:"name"`
	Value  *string `json:"value"`
}

// quotaRow is an entity with its quotas in the JSON of --describe, or with its SCRAM credentials.
type quotaRow struct {
	Entity map[string]*string  `json:"entity"`
	Quotas map[string]float64  `json:"quotas,omitempty"`
	SCRAM  map[string]scramRow `json:"scram,omitempty"`
}

type scramRow struct {
	Iterations int32 `json:"iterations"`
}

func (o *configsOptions) runDescribe(ctx context.Context, env Env, cl *cluster, types, names []string) error {
	switch types[0] {
	case typeUsers, typeClients, typeIPs:
		return o.describeQuotaEntities(ctx, env, cl, types, names)
	}
	if len(names) > 0 {
		missing, err := o.isMissing(ctx, cl, types[0], names[0])
		switch {
		case err != nil:
			return err
		case missing && o.format == formatJSON:
			return printJSON(env.Stdout, []configRow{})
		case missing:
			_, err = fmt.Fprintf(env.Stdout, "The %s '%s' doesn't exist and doesn't have dynamic config.\n", singular(types[0]), names[0])
			return err
		}
		return o.printEntities(ctx, env, cl, types[0], names[:1])
	}
	entities, err := listEntities(ctx, cl, types[0], true)
	if err != nil {
		return err
	}
	return o.printEntities(ctx, env, cl, types[0], entities)
}

// printEntities describes entities of one type, one after another.
func (o *configsOptions) printEntities(ctx context.Context, env Env, cl *cluster, kind string, entities []string) error {
	rows := []configRow{}
	for _, name := range entities {
		if o.format != formatJSON {
			if err := o.printHead(env, kind, name); err != nil {
				return err
			}
		}
		configs, err := describeResource(ctx, cl, kind, name, !o.all)
		if err != nil {
			return err
		}
		for _, c := range configs {
			rows = append(rows, newConfigRow(kind, name, c))
		}
		if o.format != formatJSON {
			if err := printConfigs(env, configs); err != nil {
				return err
			}
		}
	}
	if o.format == formatJSON {
		return printJSON(env.Stdout, rows)
	}
	return nil
}

func printConfigs(env Env, configs []kmsg.DescribeConfigsResponseResourceConfig) error {
	for _, c := range configs {
		if _, err := fmt.Fprintf(env.Stdout, "  %s=%s sensitive=%t synonyms={%s}\n", c.Name, nullText(c.Value), c.IsSensitive, synonymsText(c)); err != nil {
			return err
		}
	}
	return nil
}

func (o *configsOptions) printHead(env Env, kind, name string) error {
	words := "Dynamic"
	if o.all {
		words = "All"
	}
	head := fmt.Sprintf("%s configs for %s %s are:", words, singular(kind), name)
	if name == "" {
		head = fmt.Sprintf("Default configs for %s in the cluster are:", kind)
	}
	_, err := fmt.Fprintln(env.Stdout, head)
	return err
}

// isMissing tells whether there is no entity of that name. With --all Kafka does not look, and lets the broker say so.
func (o *configsOptions) isMissing(ctx context.Context, cl *cluster, kind, name string) (bool, error) {
	if kind == typeTopics {
		if err := checkTopicName(name); err != nil {
			return false, err
		}
	}
	if o.all || name == "" && kind == typeBrokers {
		return false, nil
	}
	there, err := listEntities(ctx, cl, kind, false)
	return !slices.Contains(there, name), err
}

// checkTopicName refuses what cannot be a topic's name (Topic.java).
//
//nolint:staticcheck // ST1005: Kafka's texts
func checkTopicName(name string) error {
	switch {
	case name == "":
		return errors.New("Topic name is invalid: the empty string is not allowed")
	case name == "." || name == "..":
		return errors.New("Topic name cannot be \".\" or \"..\"")
	case len(name) > 249:
		return fmt.Errorf("Topic name is invalid: the length of '%s' is longer than the max allowed length 249", name)
	case !regexp.MustCompile(`^[a-zA-Z0-9._-]+$`).MatchString(name):
		return fmt.Errorf("Topic name is invalid: '%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name)
	}
	return nil
}

// listEntities are the names of what there is of a kind; of brokers, when all are to be described, the default as well.
func listEntities(ctx context.Context, cl *cluster, kind string, all bool) ([]string, error) {
	var names []string
	resources := func(code int8, optional bool) error {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = []int8{code}
		resp, err := ask[*kmsg.ListConfigResourcesResponse](ctx, cl, req)
		if err == nil {
			err = javaError(resp.ErrorCode, nil)
		}
		if err != nil {
			if optional {
				return nil // an older broker, or no right to see them
			}
			return err
		}
		for _, r := range resp.ConfigResources {
			names = append(names, r.Name)
		}
		return nil
	}
	var err error
	switch kind {
	case typeTopics:
		err = cl.call(ctx, func(ctx context.Context) error {
			topics, listErr := kadm.NewClient(cl.kgo).ListTopicsWithInternal(ctx)
			names = topics.Names()
			return listErr
		})
	case typeClientMetrics:
		err = resources(int8(kmsg.ConfigResourceTypeClientMetrics), false)
	case typeGroups:
		err = cl.call(ctx, func(ctx context.Context) error {
			groups, listErr := kadm.NewClient(cl.kgo).ListGroups(ctx)
			names = groups.Groups()
			return listErr
		})
		if err == nil {
			err = resources(int8(kmsg.ConfigResourceTypeGroupConfig), true)
		}
	default:
		names, err = listNodes(ctx, cl)
		if all {
			names = append(names, "")
		}
		return names, err
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// listNodes are the ids of the brokers, or of the controllers when those are asked.
func listNodes(ctx context.Context, cl *cluster) ([]string, error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	if cl.controllers {
		req.EndpointType = 2
	}
	resp, err := ask[*kmsg.DescribeClusterResponse](ctx, cl, req)
	if err == nil {
		err = javaError(resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(resp.Brokers, func(a, b kmsg.DescribeClusterResponseBroker) int { return cmp.Compare(a.NodeID, b.NodeID) })
	var names []string
	for _, b := range resp.Brokers {
		names = append(names, strconv.Itoa(int(b.NodeID)))
	}
	return names, nil
}

// describeResource asks for the configs of one resource, in order of name; dynamic alone when asked so, which loggers are never.
func describeResource(ctx context.Context, cl *cluster, kind, name string, dynamic bool) ([]kmsg.DescribeConfigsResponseResourceConfig, error) {
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = resourceType(kind), name
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Resources, req.IncludeSynonyms = append(req.Resources, resource), true
	resp, err := ask[*kmsg.DescribeConfigsResponse](ctx, cl, req)
	if err != nil {
		return nil, err
	}
	var all []kmsg.DescribeConfigsResponseResourceConfig
	for _, r := range resp.Resources {
		if err := javaError(r.ErrorCode, r.ErrorMessage); err != nil {
			return nil, err
		}
		all = append(all, r.Configs...)
	}
	if source := dynamicSource(kind, name); dynamic && source != 0 {
		all = slices.DeleteFunc(all, func(c kmsg.DescribeConfigsResponseResourceConfig) bool { return c.Source != source })
	}
	slices.SortFunc(all, func(a, b kmsg.DescribeConfigsResponseResourceConfig) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// dynamicSource is where what was altered of a kind comes from; 0 for loggers, which are described whole.
func dynamicSource(kind, name string) kmsg.ConfigSource {
	switch kind {
	case typeTopics:
		return kmsg.ConfigSourceDynamicTopicConfig
	case typeBrokers:
		if name == "" {
			return kmsg.ConfigSourceDynamicDefaultBrokerConfig
		}
		return kmsg.ConfigSourceDynamicBrokerConfig
	case typeClientMetrics:
		return 7
	case typeGroups:
		return 8
	default:
		return 0
	}
}

// sourceText is Kafka's name of a source (ConfigEntry.ConfigSource).
func sourceText(s kmsg.ConfigSource) string {
	names := []string{
		"UNKNOWN", "DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG", "STATIC_BROKER_CONFIG", "DEFAULT_CONFIG",
		"DYNAMIC_BROKER_LOGGER_CONFIG", "DYNAMIC_CLIENT_METRICS_CONFIG", "DYNAMIC_GROUP_CONFIG",
	}
	if s < 0 || int(s) >= len(names) {
		return names[0]
	}
	return names[s]
}

func nullText(value *string) string {
	if value == nil {
		return "null"
	}
	return *value
}

func synonymsText(c kmsg.DescribeConfigsResponseResourceConfig) string {
	all := make([]string, len(c.ConfigSynonyms))
	for i, s := range c.ConfigSynonyms {
		all[i] = sourceText(s.Source) + ":" + s.Name + "=" + nullText(s.Value)
	}
	return strings.Join(all, ", ")
}

func newConfigRow(kind, name string, c kmsg.DescribeConfigsResponseResourceConfig) configRow {
	row := configRow{EntityType: kind, Name: c.Name, Value: c.Value, Sensitive: c.IsSensitive, Source: sourceText(c.Source)}
	if name != "" {
		row.EntityName = &name
	}
	for _, s := range c.ConfigSynonyms {
		row.Synonyms = append(row.Synonyms, synonymRow{sourceText(s.Source), s.Name, s.Value})
	}
	return row
}

// describeQuotas asks for the quotas of exactly the entities that types and names say; a type without a name is all of it.
func describeQuotas(ctx context.Context, cl *cluster, types, names []string) ([]kmsg.DescribeClientQuotasResponseEntry, error) {
	if len(names) > len(types) {
		return nil, errors.New("More entity names specified than entity types") //nolint:staticcheck // ST1005: Kafka's text
	}
	req := kmsg.NewPtrDescribeClientQuotasRequest()
	req.Strict = true
	for i, kind := range types {
		part := kmsg.NewDescribeClientQuotasRequestComponent()
		part.EntityType = quotaType(kind)
		switch {
		case i >= len(names):
			part.MatchType = kmsg.QuotasMatchTypeAny
		case names[i] == "":
			part.MatchType = kmsg.QuotasMatchTypeDefault
		default:
			part.MatchType, part.Match = kmsg.QuotasMatchTypeExact, &names[i]
		}
		req.Components = append(req.Components, part)
	}
	resp, err := ask[*kmsg.DescribeClientQuotasResponse](ctx, cl, req)
	if err == nil {
		err = javaError(resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(resp.Entries, compareQuotas)
	return resp.Entries, nil
}

// quotaEntity is an entity as Kafka's tool names it: user-principal 'alice', the default client-id.
func quotaEntity(e kmsg.DescribeClientQuotasResponseEntry) string {
	var parts []string
	for _, kind := range []string{"user", "client-id", "ip"} {
		for _, part := range e.Entity {
			if part.Type != kind {
				continue
			}
			if kind == "user" {
				kind = "user-principal"
			}
			if part.Name == nil || *part.Name == "" {
				parts = append(parts, "the default "+kind)
			} else {
				parts = append(parts, kind+" '"+*part.Name+"'")
			}
		}
	}
	return strings.Join(parts, ", ")
}

// javaDouble is how Java prints a number: 10.0, 2.0E7.
func javaDouble(v float64) string {
	if size := math.Abs(v); v != 0 && (size < 1e-3 || size >= 1e7) {
		mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'E', -1, 64), "E")
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		n, _ := strconv.Atoi(exponent) // FormatFloat wrote it
		return mantissa + "E" + strconv.Itoa(n)
	}
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

func (o *configsOptions) describeQuotaEntities(ctx context.Context, env Env, cl *cluster, types, names []string) error {
	entries, err := describeQuotas(ctx, cl, types, names)
	if err != nil {
		return err
	}
	rows := []quotaRow{}
	for _, e := range entries {
		if o.format == formatJSON {
			row := quotaRow{Entity: map[string]*string{}, Quotas: map[string]float64{}}
			for _, part := range e.Entity {
				row.Entity[part.Type] = part.Name
			}
			for _, v := range e.Values {
				row.Quotas[v.Key] = v.Value
			}
			rows = append(rows, row)
			continue
		}
		values := make([]string, len(e.Values))
		for i, v := range e.Values {
			values[i] = v.Key + "=" + javaDouble(v.Value)
		}
		if _, err = fmt.Fprintf(env.Stdout, "Quota configs for %s are %s\n", quotaEntity(e), strings.Join(values, ", ")); err != nil {
			return err
		}
	}
	if types[0] == typeUsers && len(types) == 1 && !slices.Contains(names, "") {
		if rows, err = o.describeSCRAM(ctx, env, cl, names, rows); err != nil {
			return err
		}
	}
	if o.format == formatJSON {
		return printJSON(env.Stdout, rows)
	}
	return nil
}

// describeSCRAM prints the credentials of the users named, or of all, or adds them to rows.
func (o *configsOptions) describeSCRAM(ctx context.Context, env Env, cl *cluster, names []string, rows []quotaRow) ([]quotaRow, error) {
	req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	for _, name := range names {
		u := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
		u.Name = name
		req.Users = append(req.Users, u)
	}
	resp, err := ask[*kmsg.DescribeUserSCRAMCredentialsResponse](ctx, cl, req)
	if err == nil {
		err = javaError(resp.ErrorCode, resp.ErrorMessage)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(resp.Results, func(a, b kmsg.DescribeUserSCRAMCredentialsResponseResult) int { return cmp.Compare(a.User, b.User) })
	for _, r := range resp.Results {
		if r.ErrorCode == kerr.ResourceNotFound.Code {
			continue
		}
		if refused := javaError(r.ErrorCode, r.ErrorMessage); refused != nil {
			return nil, refused
		}
		slices.SortFunc(r.CredentialInfos, func(a, b kmsg.DescribeUserSCRAMCredentialsResponseResultCredentialInfo) int {
			return cmp.Compare(b.Mechanism, a.Mechanism) // Kafka names SCRAM-SHA-512 first
		})
		row := quotaRow{Entity: map[string]*string{"user": &r.User}, SCRAM: map[string]scramRow{}}
		var texts []string
		for _, info := range r.CredentialInfos {
			mechanism := kadm.ScramMechanism(info.Mechanism).String()
			texts = append(texts, fmt.Sprintf("%s=iterations=%d", mechanism, info.Iterations))
			row.SCRAM[mechanism] = scramRow{info.Iterations}
		}
		if o.format == formatJSON {
			rows = append(rows, row)
			continue
		}
		if _, err = fmt.Fprintf(env.Stdout, "SCRAM credential configs for user-principal '%s' are %s\n", r.User, strings.Join(texts, ", ")); err != nil {
			return nil, err
		}
	}
	return rows, nil
}
