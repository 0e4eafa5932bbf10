package api

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
	"github.com/brokerlab/brokerlab/broker/internal/metadata"
)

// alteration is one request that alters configs, old style or incremental: what it asks of each
// resource, and what that led to.
type alteration struct {
	call         *call
	validateOnly bool
	replace      bool // all dynamic configs of a resource are replaced by those given
	resources    []changed
}

// changed is one resource of an alteration. code and message are its result.
type changed struct {
	kind    kmsg.ConfigResourceType
	name    string
	configs []changedConfig
	code    int16
	message *string
}

type changedConfig struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value *string
}

func (c *changed) refuse(err *kerr.Error, format string, args ...any) {
	c.code, c.message = err.Code, nonEmpty(fmt.Sprintf(format, args...))
}

// run alters what is the front door's, asks the data plane for the rest, and answers. ask makes the
// data plane's request of the resources at these places of ours, outcome reads the result of the i-th of
// them from its answer, and response makes ours of what all led to.
func (a *alteration) run(
	ask func(places []int) kmsg.Request, outcome func(answer kmsg.Response, i int) (code int16, message *string), response func() kmsg.Response,
) {
	places := a.admit()
	if len(places) == 0 {
		a.call.answer(response())
		return
	}
	a.call.ask(ask(places), func(answer kmsg.Response) {
		for i, place := range places {
			a.resources[place].code, a.resources[place].message = outcome(answer, i)
		}
		a.call.answer(response())
	})
}

// at picks the resources at places.
func at[R any](resources []R, places []int) []R {
	picked := make([]R, len(places))
	for i, place := range places {
		picked[i] = resources[place]
	}
	return picked
}

// admit checks every resource and alters those that are the front door's. It returns the places of those
// that the data plane is to alter.
func (a *alteration) admit() []int {
	var passed []int
	for i := range a.resources {
		r := &a.resources[i]
		a.precheck(r)
		if r.code != 0 {
			continue
		}
		switch r.kind {
		case kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeClientMetrics:
			passed = append(passed, i)
		case kmsg.ConfigResourceTypeBroker:
			a.alterBroker(r)
		case kmsg.ConfigResourceTypeBrokerLogger:
			a.alterLogger(r)
		default:
			r.refuse(kerr.InvalidRequest, "Unknown resource type %d", int8(r.kind))
		}
	}
	return passed
}

// precheck is what Kafka looks at before anything else, whoever asks.
func (a *alteration) precheck(r *changed) {
	copies := 0
	for i := range a.resources {
		if a.resources[i].kind == r.kind && a.resources[i].name == r.name {
			copies++
		}
	}
	if copies > 1 {
		r.refuse(kerr.InvalidRequest, "Each resource must appear at most once.")
		return
	}
	seen := map[string]bool{}
	for _, c := range r.configs {
		if seen[c.name] {
			r.refuse(kerr.InvalidRequest, "Error due to duplicate config keys")
			return
		}
		seen[c.name] = true
	}
	var null []string
	for _, c := range r.configs {
		if c.value == nil && c.op != kmsg.IncrementalAlterConfigOpDelete {
			null = append(null, c.name)
		}
	}
	if len(null) > 0 {
		r.refuse(kerr.InvalidRequest, "Null value not supported for : %s", strings.Join(null, ", "))
	}
}

// refuseNode says why a resource name is not this broker's; format takes the expected and the
// received id.
func (q *call) refuseNode(name, format string) string {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return "Node id must be an integer, but it is: " + name
	}
	if id != int64(q.server.o.NodeID) {
		return fmt.Sprintf(format, q.server.o.NodeID, name)
	}
	return ""
}

func (a *alteration) alterLogger(r *changed) {
	if why := a.call.refuseNode(r.name, "Unexpected node id. Expected %d, but received %s"); why != "" {
		r.refuse(kerr.InvalidRequest, "%s", why)
		return
	}
	for _, c := range r.configs {
		r.refuse(kerr.InvalidConfig, "Logger %s does not exist!", c.name)
		return
	}
}

// alterBroker checks, stores and applies a change of one broker's configs, or of the cluster's
// default.
func (a *alteration) alterBroker(r *changed) {
	q := a.call
	if r.name != "" {
		if why := q.refuseNode(r.name, "Unexpected broker id, expected %d, but received %s"); why != "" {
			r.refuse(kerr.InvalidRequest, "%s", why)
			return
		}
	}
	err := q.server.alterations(func() error { return a.change(r) })
	var refused *configError
	switch {
	case errors.As(err, &refused):
		r.refuse(refused.err, "%s", refused.message)
	case err != nil:
		q.server.o.Log.Error("alteration of broker configs failed", slog.Any("error", err))
		r.refuse(kerr.UnknownServerError, "%s", kerr.UnknownServerError.Description)
	case !a.validateOnly:
		q.logAltered(r)
	}
}

// logAltered says what was altered, and what of it nothing here obeys.
func (q *call) logAltered(r *changed) {
	var names, idle []string
	for _, c := range r.configs {
		names = append(names, c.name)
		if known, ok := kafkaconfig.Resolve(c.name); !ok || known.Name != threadsConfig && !known.Security {
			idle = append(idle, c.name)
		}
	}
	q.server.o.Log.Info("altered broker configs", slog.String("broker", r.name), slog.Any("configs", names), slog.String("principal", principal(q.conn.Identity())))
	if len(idle) > 0 {
		q.server.o.Log.Warn("configs are kept and described, but have no effect here", slog.Any("configs", idle))
	}
}

// change is one alteration of broker configs, alone at its time: checked, stored, put to work.
func (a *alteration) change(r *changed) error {
	var apply func()
	admit := func(*metadata.Image) (records []metadata.Record, err error) {
		now := a.call.server.brokerConfigs()
		records, next, err := now.admit(r, a.replace)
		if err != nil {
			return nil, err
		}
		apply, err = a.call.server.applicable(now, next)
		return records, err
	}
	if a.validateOnly {
		_, err := admit(nil)
		return err
	}
	if err := a.call.server.o.Metadata.Update(a.call.server.ctx, admit); err != nil {
		return err
	}
	apply()
	return nil
}

// configError is a refused alteration, in Kafka's words.
type configError struct {
	err     *kerr.Error
	message string
}

func (e *configError) Error() string { return e.message }

func invalidRequest(format string, args ...any) error {
	return &configError{kerr.InvalidRequest, fmt.Sprintf(format, args...)}
}

// admit turns a change into records, and tells what the broker's dynamic configs will be after it.
func (b *brokerConfigs) admit(r *changed, replace bool) (records []metadata.Record, next *brokerConfigs, err error) {
	resource := metadata.Resource{Type: metadata.ResourceBroker, Name: r.name}
	old := b.perBroker
	if r.name == "" {
		old = b.clusterWide
	}
	after := map[string]string{}
	if !replace {
		maps.Copy(after, old)
	}
	set := map[string]string{}
	for i := range r.configs {
		c := &r.configs[i]
		value, keep, err := c.result(old)
		if err != nil {
			return nil, nil, err
		}
		if keep {
			after[c.name], set[c.name] = value, value
		} else {
			delete(after, c.name)
		}
	}
	if err := refuseDynamic(r); err != nil {
		return nil, nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if err := checkValue(name, set[name]); err != nil {
			return nil, nil, err
		}
	}
	changed := *b
	if r.name == "" {
		changed.clusterWide = after
	} else {
		changed.perBroker = after
	}
	return difference(resource, old, after), &changed, nil
}

// checkValue validates a value as Kafka does.
func checkValue(name, value string) error {
	known, ok := kafkaconfig.Resolve(name)
	if !ok {
		return nil
	}
	if err := known.Check(value); err != nil {
		return invalidRequest("%s", strings.Replace(err.Error(), "configuration "+known.Name, "configuration "+name, 1))
	}
	return nil
}

// difference is what leads from old to after, in order of name.
func difference(resource metadata.Resource, old, after map[string]string) (records []metadata.Record) {
	names := maps.Clone(after)
	if names == nil {
		names = map[string]string{}
	}
	maps.Copy(names, old)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		was, had := old[name]
		value, has := after[name]
		switch {
		case !has:
			records = append(records, metadata.SetConfig{Resource: resource, Name: name})
		case !had || was != value:
			records = append(records, metadata.SetConfig{Resource: resource, Name: name, Value: &value})
		}
	}
	return records
}

// result is the value that one change leads to; keep is false when it takes the config away.
func (c *changedConfig) result(old map[string]string) (value string, keep bool, err error) {
	if c.op == kmsg.IncrementalAlterConfigOpDelete {
		return "", false, nil
	}
	if c.op == kmsg.IncrementalAlterConfigOpSet {
		return *c.value, true, nil
	}
	known, ok := kafkaconfig.Resolve(c.name)
	verb := map[kmsg.IncrementalAlterConfigOp]string{kmsg.IncrementalAlterConfigOpAppend: "append", kmsg.IncrementalAlterConfigOpSubtract: "subtract"}[c.op]
	if verb == "" {
		return "", false, invalidRequest("Unknown operation %d", int8(c.op))
	}
	if !ok || known.Type != kafkaconfig.List {
		return "", false, &configError{kerr.InvalidConfig, fmt.Sprintf("Config value %s is not allowed for config key: %s", verb, c.name)}
	}
	now, has := old[c.name]
	if !has && known.Default != nil {
		now = *known.Default
	}
	entries := kafkaconfig.SplitList(now)
	for _, e := range kafkaconfig.SplitList(*c.value) {
		entries = slices.DeleteFunc(entries, func(have string) bool { return have == e })
		if c.op == kmsg.IncrementalAlterConfigOpAppend {
			entries = append(entries, e)
		}
	}
	return strings.Join(entries, ","), true, nil
}

// refuseDynamic is Kafka's judgement of the names alone, and ours of those that we cannot apply while
// we run: better a refusal than a setting that nobody obeys.
func refuseDynamic(r *changed) error {
	var fixed, unprefixed, single []string
	for _, c := range r.configs {
		known, ok := kafkaconfig.Resolve(c.name)
		switch {
		case !ok: // a custom name, kept for whoever reads it
		case known.Mode == kafkaconfig.ReadOnly:
			fixed = append(fixed, c.name)
		case known.Security && known.Listener == "":
			unprefixed = append(unprefixed, c.name)
		case r.name == "" && known.Mode == kafkaconfig.PerBroker && !clusterWideListenerConfig(known.Name):
			single = append(single, c.name)
		case !applicableName(known):
			fixed = append(fixed, c.name)
		}
	}
	list := func(names []string) string {
		slices.Sort(names)
		return "[" + strings.Join(names, ", ") + "]"
	}
	switch {
	case len(fixed) > 0:
		return invalidRequest("Cannot update these configs dynamically: %s", list(fixed))
	case len(unprefixed) > 0:
		return invalidRequest("These security configs can be dynamically updated only per-listener using the listener prefix: %s", list(unprefixed))
	case len(single) > 0:
		return invalidRequest("Cannot update these configs at default cluster level, broker id must be specified: %s", list(single))
	}
	return nil
}

// clusterWideListenerConfig names the configs that may be set cluster-wide with a listener prefix.
func clusterWideListenerConfig(name string) bool {
	return name == "max.connections" || name == "max.connection.creation.rate" || name == "num.network.threads"
}
