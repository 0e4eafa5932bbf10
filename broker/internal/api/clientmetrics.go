package api

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// clientMetricsSource is where a subscription's own value comes from, by Kafka's number (DYNAMIC_CLIENT_METRICS_CONFIG).
const clientMetricsSource kmsg.ConfigSource = 7

// clientMetricsConfigs are the configs of a subscription to clients' metrics (KIP-714). They are kept and described;
// clients are not asked for metrics.
func clientMetricsConfigs() []kafkaconfig.Config {
	return []kafkaconfig.Config{
		{Name: "interval.ms", Type: kafkaconfig.Int, Default: new("300000"), Doc: "Metrics push interval in milliseconds"},
		{Name: "match", Type: kafkaconfig.List, Default: new(""), Doc: "Client match criteria"},
		{Name: "metrics", Type: kafkaconfig.List, Default: new(""), Doc: "Telemetry metric name prefix list"},
	}
}

func subscriptionResource(name string) metadata.Resource {
	return metadata.Resource{Type: metadata.ResourceClientMetrics, Name: name}
}

// alterSubscription checks and stores a change of one subscription.
func (a *alteration) alterSubscription(r *changed) {
	s := a.call.server
	s.altering.Lock()
	defer s.altering.Unlock()
	err := s.o.Metadata.CatchUp(a.call.ctx)
	old := s.o.Metadata.Image().Configs(subscriptionResource(r.name))
	var after map[string]string
	if err == nil {
		after, err = subscribed(r, old, a.replace)
	}
	if err == nil && !a.validateOnly {
		err = s.o.Metadata.Append(a.call.ctx, difference(subscriptionResource(r.name), old, after)...)
	}
	var refused *configError
	switch {
	case errors.As(err, &refused):
		r.refuse(refused.err, "%s", refused.message)
	case err != nil:
		s.o.Log.Error("alteration of a subscription to client metrics failed", slog.Any("error", err))
		r.fail(err)
	case !a.validateOnly:
		s.o.Log.Info("altered client metrics", slog.String("subscription", r.name), slog.String("principal", principal(a.call.conn.Identity())))
	}
}

// subscribed is what a subscription will hold after a change, if Kafka would take it.
func subscribed(r *changed, old map[string]string, replace bool) (map[string]string, error) {
	after := map[string]string{}
	if !replace {
		maps.Copy(after, old)
	}
	for _, c := range r.configs {
		switch c.op {
		case kmsg.IncrementalAlterConfigOpSet:
			after[c.name] = *c.value
		case kmsg.IncrementalAlterConfigOpDelete:
			delete(after, c.name)
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			verb := "APPEND"
			if c.op == kmsg.IncrementalAlterConfigOpSubtract {
				verb = "SUBTRACT"
			}
			return nil, &configError{kerr.InvalidConfig, fmt.Sprintf("Can't %s to key %s because its type is not LIST.", verb, c.name)}
		default:
			return nil, invalidRequest("Unknown operations type %d", int8(c.op))
		}
	}
	return after, checkSubscription(r.name, after)
}

// checkSubscription judges a subscription as ClientMetricsConfigs.java does.
func checkSubscription(name string, configs map[string]string) error {
	if name == "" {
		return invalidRequest("Subscription name can't be empty")
	}
	known := clientMetricsConfigs()
	for _, key := range slices.Sorted(maps.Keys(configs)) {
		if !slices.ContainsFunc(known, func(c kafkaconfig.Config) bool { return c.Name == key }) {
			return invalidRequest("Unknown client metrics configuration: %s", key)
		}
	}
	for i := range known {
		value, set := configs[known[i].Name]
		if !set {
			continue
		}
		// Of lists the controller has taken out what comes again.
		if err := (kafkaconfig.ResourceConfig{Name: known[i].Name, Type: known[i].Type, Unique: true}).Check(value); err != nil {
			return &configError{kerr.InvalidConfig, err.Error()}
		}
	}
	const shortest, longest = 100, 3_600_000
	if value, set := configs["interval.ms"]; set {
		if ms, err := strconv.Atoi(strings.TrimSpace(value)); err != nil || ms < shortest || ms > longest { // checked to be a number
			return invalidRequest("Invalid value %d for interval.ms, interval must be between %d and %d (1 hour)", ms, shortest, longest)
		}
	}
	for _, pattern := range kafkaconfig.SplitList(configs["match"]) {
		if !isClientPattern(pattern) {
			return &configError{kerr.InvalidConfig, "Illegal client matching pattern: " + pattern}
		}
	}
	return nil
}

// isClientPattern tells whether a text is a selector of clients and a regular expression, with an equals sign between.
func isClientPattern(text string) bool {
	parts := strings.Split(text, "=")
	for len(parts) > 0 && parts[len(parts)-1] == "" { // Java drops them
		parts = parts[:len(parts)-1]
	}
	if len(parts) != 2 {
		return false
	}
	selectors := []string{
		"client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port",
	}
	return slices.Contains(selectors, strings.TrimSpace(parts[0])) && isJavaPattern(strings.TrimSpace(parts[1]))
}

// isJavaPattern tells whether Java would compile a regular expression. What Go lacks passes: nobody is matched by it here.
func isJavaPattern(text string) bool {
	_, err := regexp.Compile(text)
	invalid, ok := errors.AsType[*syntax.Error](err)
	return !ok || invalid.Code == syntax.ErrInvalidPerlOp || invalid.Code == syntax.ErrInvalidRepeatOp && strings.HasSuffix(invalid.Expr, "+")
}

// describeSubscription describes a subscription, whether it is there or not.
func (s *Server) describeSubscription(out *kmsg.DescribeConfigsResponseResource, r *kmsg.DescribeConfigsRequestResource, synonyms, documentation bool) {
	if r.ResourceName == "" {
		out.ErrorCode, out.ErrorMessage = kerr.InvalidRequest.Code, new("Client metrics subscription name must not be empty")
		return
	}
	own := s.o.Metadata.Image().Configs(subscriptionResource(r.ResourceName))
	all := clientMetricsConfigs()
	for i := range all {
		known := &all[i]
		if len(r.ConfigNames) > 0 && !slices.Contains(r.ConfigNames, known.Name) {
			continue
		}
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.ConfigType, c.Value, c.Source, c.IsDefault = known.Name, configType(known.Type), known.Default, kmsg.ConfigSourceDefaultConfig, true
		if value, set := own[known.Name]; set {
			c.Value, c.Source, c.IsDefault = new(canonicalSubscription(*known, value)), clientMetricsSource, false
			completeSynonyms(&c, synonyms)
		}
		if documentation {
			c.Documentation = &known.Doc
		}
		out.Configs = append(out.Configs, c)
	}
}

// canonicalSubscription is what Kafka has read of a value: of entries that are there twice the first.
func canonicalSubscription(c kafkaconfig.Config, value string) string {
	if c.Type != kafkaconfig.List {
		return c.Canonical(value)
	}
	var entries []string
	for _, e := range kafkaconfig.SplitList(value) {
		if !slices.Contains(entries, e) {
			entries = append(entries, e)
		}
	}
	return strings.Join(entries, ",")
}
