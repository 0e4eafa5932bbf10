package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/magiconair/properties"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// scramIterations is what a SCRAM credential gets when none are given, and what it must have at least.
const scramIterations = 4096

// toSet is what --add-config and --add-config-file say.
func (o *configsOptions) toSet() (map[string]string, error) {
	set := map[string]string{}
	for _, file := range o.addFile {
		p, err := properties.LoadFile(file, properties.UTF8)
		if err != nil {
			return nil, fmt.Errorf("--add-config-file: %w", err)
		}
		p.DisableExpansion = true
		maps.Copy(set, p.Map())
	}
	for _, text := range o.add {
		if err := parseConfigs(text, set); err != nil {
			return nil, err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		if strings.ContainsFunc(key, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("$._-", r)
		}) {
			return nil, fmt.Errorf("Invalid character found for config key: %s", key) //nolint:staticcheck // ST1005: Kafka's text
		}
	}
	return set, nil
}

// parseConfigs reads key=value,key=[a,b] into set. Commas and equals signs inside of brackets belong to the value; the
// brackets themselves go, wherever they stand.
func parseConfigs(text string, set map[string]string) error {
	fields := strings.Split(outsideBrackets(text, ','), "\x00")
	for len(fields) > 1 && fields[len(fields)-1] == "" {
		fields = fields[:len(fields)-1]
	}
	for _, field := range fields {
		pair := strings.Split(outsideBrackets(field, '='), "\x00")
		if len(pair) != 2 {
			return errors.New("Invalid entity config: all configs to be added must be in the format \"key=val\" or  \"key=[val1,val2]\" to group values which contain commas.") //nolint:revive,staticcheck // ST1005: Kafka's text
		}
		set[strings.TrimSpace(pair[0])] = strings.TrimSpace(strings.NewReplacer("[", "", "]", "").Replace(pair[1]))
	}
	return nil
}

// outsideBrackets replaces each sep that is not inside of brackets by a zero byte. Inside is what has a closing bracket
// after it before any opening one.
func outsideBrackets(text string, sep byte) string {
	out := []byte(text)
	for i := range out {
		if out[i] != sep {
			continue
		}
		if next := strings.IndexAny(text[i:], "[]"); next < 0 || text[i+next] == '[' {
			out[i] = 0
		}
	}
	return string(out)
}

// alterEntity sets and unsets configs of one entity, or of a user's client.
func alterEntity(ctx context.Context, cl *cluster, types, names []string, set map[string]string, unset []string) error {
	switch kind := types[0]; kind {
	case typeUsers, typeClients:
		return alterUserOrClient(ctx, cl, types, names, set, unset)
	case typeIPs:
		if unknown := without(slices.Concat(slices.Sorted(maps.Keys(set)), unset), isIPQuota); len(unknown) > 0 {
			return fmt.Errorf("Only connection quota configs can be added for 'ips' using --bootstrap-server. Unexpected config names: %s", strings.Join(unknown, ", ")) //nolint:staticcheck // ST1005: Kafka's text
		}
		return alterQuotas(ctx, cl, types, names, set, unset)
	case typeBrokerLoggers:
		loggers, err := describeResource(ctx, cl, kind, names[0], false)
		if err != nil {
			return err
		}
		known := func(name string) bool {
			return slices.ContainsFunc(loggers, func(c kmsg.DescribeConfigsResponseResourceConfig) bool { return c.Name == name })
		}
		if unknown := without(slices.Concat(unset, slices.Sorted(maps.Keys(set))), known); len(unknown) > 0 {
			return fmt.Errorf("Invalid broker logger(s): %s", strings.Join(unknown, ",")) //nolint:staticcheck // ST1005: Kafka's text
		}
		return alterResource(ctx, cl, kind, names[0], set, unset)
	default:
		return alterResource(ctx, cl, kind, names[0], set, unset)
	}
}

// without is what of names is not known.
func without(names []string, known func(string) bool) []string {
	return slices.DeleteFunc(names, known)
}

func isIPQuota(name string) bool { return name == "connection_creation_rate" }

func isQuota(name string) bool {
	return slices.Contains([]string{"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}, name)
}

func isSCRAM(name string) bool { return scramMechanism(name) != 0 }

func scramMechanism(name string) kadm.ScramMechanism {
	switch name {
	case "SCRAM-SHA-256":
		return kadm.ScramSha256
	case "SCRAM-SHA-512":
		return kadm.ScramSha512
	}
	return 0
}

// alterUserOrClient alters quotas, or the SCRAM credentials of a user, never both.
//
//nolint:revive,staticcheck // ST1005: Kafka's texts
func alterUserOrClient(ctx context.Context, cl *cluster, types, names []string, set map[string]string, unset []string) error {
	adding := slices.Sorted(maps.Keys(set))
	client := types[0] == typeClients || len(types) == 2
	what, who, known := "quota and SCRAM credential", typeUsers, func(name string) bool { return isQuota(name) || isSCRAM(name) }
	if client {
		what, who, known = "quota", typeClients, isQuota
	}
	if unknown := without(slices.Clone(adding), known); len(unknown) > 0 {
		return fmt.Errorf("Only %s configs can be added for '%s' using --bootstrap-server. Unexpected config names: %s", what, who, strings.Join(unknown, ","))
	}
	if unknown := without(slices.Clone(unset), known); len(unknown) > 0 {
		return fmt.Errorf("Only %s configs can be deleted for '%s' using --bootstrap-server. Unexpected config names: %s", what, who, strings.Join(unknown, ","))
	}
	all := slices.Concat(adding, unset)
	quotas, scrams := slices.ContainsFunc(all, isQuota), slices.ContainsFunc(all, isSCRAM)
	switch {
	case scrams && slices.Contains(names, ""):
		return errors.New("The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using --bootstrap-server.")
	case scrams && quotas:
		return errors.New("Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using --bootstrap-server.")
	case scrams:
		return alterSCRAM(ctx, cl, names[0], set, unset)
	}
	return alterQuotas(ctx, cl, types, names, set, unset)
}

func alterSCRAM(ctx context.Context, cl *cluster, user string, set map[string]string, unset []string) error {
	var deletes []kadm.DeleteSCRAM
	for _, name := range unset {
		deletes = append(deletes, kadm.DeleteSCRAM{User: user, Mechanism: scramMechanism(name)})
	}
	var upserts []kadm.UpsertSCRAM
	credential := regexp.MustCompile(`^(?:iterations=(-?\d*),)?password=(.*)$`)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		u, err := upsertSCRAM(user, name, credential.FindStringSubmatch(set[name]), set[name])
		if err != nil {
			return err
		}
		upserts = append(upserts, u)
	}
	return cl.call(ctx, func(ctx context.Context) error {
		altered, err := kadm.NewClient(cl.kgo).AlterUserSCRAMs(ctx, deletes, upserts)
		if err != nil {
			return err
		}
		for _, a := range altered {
			if refused, ok := errors.AsType[*kerr.Error](a.Err); ok {
				var text *string
				if a.ErrMessage != "" {
					text = &a.ErrMessage
				}
				return javaError(refused.Code, text)
			}
		}
		return nil
	})
}

// upsertSCRAM is a credential of its text, of which m are the iterations and the password.
//
//nolint:staticcheck // ST1005: Kafka's and Java's texts
func upsertSCRAM(user, name string, m []string, text string) (u kadm.UpsertSCRAM, err error) {
	if m == nil {
		return u, fmt.Errorf("Invalid credential property %s=%s", strings.ReplaceAll(name, "-", "_"), text)
	}
	if m[2] == "" {
		return u, &javaExceptionError{"org.apache.kafka.common.errors.UnacceptableCredentialException", "Password must not be empty"}
	}
	iterations := int64(scramIterations)
	if m[1] != "" && m[1] != "-1" {
		if iterations, err = strconv.ParseInt(m[1], 10, 32); err != nil {
			return u, fmt.Errorf("For input string: %q", m[1])
		}
	}
	if iterations < scramIterations {
		return u, fmt.Errorf("Iterations %d is less than the minimum %d required for %s", iterations, scramIterations, name)
	}
	if iterations > 16384 { // the client does not send it, so that it is refused here as brokers do
		return u, &javaExceptionError{"org.apache.kafka.common.errors.UnacceptableCredentialException", "Too many iterations"}
	}
	return kadm.UpsertSCRAM{User: user, Mechanism: scramMechanism(name), Iterations: int32(iterations), Password: m[2]}, nil
}

// quotaType is the name of an entity type in quotas.
func quotaType(kind string) string {
	switch kind {
	case typeUsers:
		return "user"
	case typeClients:
		return "client-id"
	default:
		return "ip"
	}
}

func alterQuotas(ctx context.Context, cl *cluster, types, names []string, set map[string]string, unset []string) error {
	present, err := describeQuotas(ctx, cl, types, names)
	if err != nil {
		return err
	}
	absent := without(slices.Clone(unset), func(name string) bool {
		return len(present) > 0 && slices.ContainsFunc(present[0].Values, func(v kmsg.DescribeClientQuotasResponseEntryValue) bool { return v.Key == name })
	})
	if len(absent) > 0 {
		return fmt.Errorf("Invalid config(s): %s", strings.Join(absent, ",")) //nolint:staticcheck // ST1005: Kafka's text
	}
	entry := kmsg.NewAlterClientQuotasRequestEntry()
	for i, kind := range types {
		part := kmsg.NewAlterClientQuotasRequestEntryEntity()
		part.Type = quotaType(kind)
		if names[i] != "" {
			part.Name = &names[i]
		}
		entry.Entity = append(entry.Entity, part)
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		op.Key = key
		if op.Value, err = strconv.ParseFloat(set[key], 64); err != nil {
			return fmt.Errorf("Cannot parse quota configuration value for %s: %s", key, set[key]) //nolint:staticcheck // ST1005: Kafka's text
		}
		entry.Ops = append(entry.Ops, op)
	}
	for _, key := range unset {
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		op.Key, op.Remove = key, true
		entry.Ops = append(entry.Ops, op)
	}
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Entries = append(req.Entries, entry)
	resp, err := ask[*kmsg.AlterClientQuotasResponse](ctx, cl, req)
	if err != nil {
		return err
	}
	for _, e := range resp.Entries {
		if err := javaError(e.ErrorCode, e.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}

// resourceType is the code of an entity type that has a resource of its own.
func resourceType(kind string) kmsg.ConfigResourceType {
	switch kind {
	case typeTopics:
		return kmsg.ConfigResourceTypeTopic
	case typeBrokers:
		return kmsg.ConfigResourceTypeBroker
	case typeBrokerLoggers:
		return kmsg.ConfigResourceTypeBrokerLogger
	case typeClientMetrics:
		return kmsg.ConfigResourceTypeClientMetrics
	default:
		return kmsg.ConfigResourceTypeGroupConfig
	}
}

func alterResource(ctx context.Context, cl *cluster, kind, name string, set map[string]string, unset []string) error {
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = resourceType(kind), name
	for _, key := range unset {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = key, kmsg.IncrementalAlterConfigOpDelete, new("")
		resource.Configs = append(resource.Configs, c)
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = key, kmsg.IncrementalAlterConfigOpSet, new(set[key])
		resource.Configs = append(resource.Configs, c)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Resources = append(req.Resources, resource)
	resp, err := ask[*kmsg.IncrementalAlterConfigsResponse](ctx, cl, req)
	if err != nil {
		return err
	}
	for _, r := range resp.Resources {
		if err := javaError(r.ErrorCode, r.ErrorMessage); err != nil {
			return err
		}
	}
	return nil
}

// compareQuotas orders quota entries by entity: users, clients, addresses, each default last.
func compareQuotas(a, b kmsg.DescribeClientQuotasResponseEntry) int {
	return cmp.Compare(quotaEntity(a), quotaEntity(b))
}
