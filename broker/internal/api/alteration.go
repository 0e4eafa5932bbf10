package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
	"github.com/brokerlab/brokerlab/broker/internal/dynamicconfig"
	"github.com/brokerlab/brokerlab/broker/internal/engine"
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
	finish       []func() // run when the answer is on its way
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

// fail is what an alteration comes to that could not be stored.
func (c *changed) fail(err error) {
	why := kerr.UnknownServerError
	if errors.Is(err, context.DeadlineExceeded) {
		why = kerr.RequestTimedOut
	}
	c.refuse(why, "%s", why.Description)
}

// run alters what is the front door's, asks the data plane for the rest, and answers. ask makes the
// data plane's request of the resources at these places of ours, outcome reads the result of the i-th of
// them from its answer, and response makes ours of what all led to.
func (a *alteration) run(
	ask func(places []int) kmsg.Request, outcome func(answer kmsg.Response, i int) (code int16, message *string), response func() kmsg.Response,
) {
	places := a.admit()
	if len(places) == 0 {
		a.answer(response())
		return
	}
	a.call.ask(ask(places), func(answer kmsg.Response) {
		for i, place := range places {
			a.resources[place].code, a.resources[place].message = outcome(answer, i)
		}
		a.answer(response())
	})
}

// answer answers, and then ends the connections that the alteration costs: its sender's may be one.
func (a *alteration) answer(resp kmsg.Response) {
	a.call.answer(resp)
	for _, finish := range a.finish {
		finish()
	}
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
	copies := map[resource]int{}
	for i := range a.resources {
		copies[a.resources[i].resource()]++
	}
	for i := range a.resources {
		r := &a.resources[i]
		a.precheck(r, copies[r.resource()])
		if r.code != 0 {
			continue
		}
		// What precheck says is told to anyone, all that follows to those who may.
		if kind, name := protectedBy(r.kind, r.name); !a.call.may(acl.AlterConfigs, kind, name) {
			r.code = denial(kind).Code
			if r.kind != kmsg.ConfigResourceTypeBroker && r.kind != kmsg.ConfigResourceTypeBrokerLogger {
				r.message = nonEmpty(denialText(kind)) // Kafka's controller says it, its brokers do not
			}
			continue
		}
		switch r.kind {
		case kmsg.ConfigResourceTypeGroupConfig:
			if why := a.call.server.brokerConfigs().checkGroup(r.configs); why != "" && r.name != "" {
				r.refuse(kerr.InvalidConfig, "%s", why)
				continue
			}
			if a.replace {
				a.call.replaceGroup(r, a.validateOnly)
				continue
			}
			passed = append(passed, i)
		case kmsg.ConfigResourceTypeTopic:
			passed = a.passTopic(passed, i)
		case kmsg.ConfigResourceTypeClientMetrics:
			a.alterSubscription(r)
		case kmsg.ConfigResourceTypeBroker:
			a.alterBroker(r)
		case kmsg.ConfigResourceTypeBrokerLogger:
			a.alterLogger(r)
		default: // precheck has refused it
		}
	}
	return passed
}

// passTopic adds to the places of what the data plane is to alter a topic that the sender may see.
func (a *alteration) passTopic(passed []int, place int) []int {
	r := &a.resources[place]
	if a.call.server.hiddenConfig(r.kind, r.name) {
		r.refuse(kerr.UnknownTopicOrPartition, "The topic '%s' does not exist.", r.name)
		return passed
	}
	return append(passed, place)
}

// resource is what an alteration names.
type resource struct {
	kind kmsg.ConfigResourceType
	name string
}

func (c *changed) resource() resource { return resource{c.kind, c.name} }

// precheck is what Kafka looks at before anything else, whoever asks; copies is how often the request names the resource.
func (a *alteration) precheck(r *changed, copies int) {
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
		return
	}
	switch r.kind {
	case kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeClientMetrics, kmsg.ConfigResourceTypeBroker:
	case kmsg.ConfigResourceTypeBrokerLogger:
		if a.replace { // the older API has no loggers
			r.refuse(kerr.InvalidRequest, "Unknown resource type %d", int8(r.kind))
		}
	default:
		r.refuse(kerr.InvalidRequest, "Unknown resource type %d", int8(r.kind))
	}
}

// protectedBy is the resource whose rules are about the configs of another.
func protectedBy(kind kmsg.ConfigResourceType, name string) (acl.ResourceType, string) {
	switch kind {
	case kmsg.ConfigResourceTypeTopic:
		return acl.Topic, name
	case kmsg.ConfigResourceTypeGroupConfig:
		return acl.Group, name
	default:
		return acl.Cluster, acl.ClusterName
	}
}

// refuseNode says why a resource name is not this broker's; what is Kafka's word for it, and format takes the expected and
// the received id.
func (q *call) refuseNode(what, name, format string) string {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return what + " id must be an integer, but it is: " + name
	}
	if id != int64(q.server.o.NodeID) {
		return fmt.Sprintf(format, q.server.o.NodeID, name)
	}
	return ""
}

func (a *alteration) alterLogger(r *changed) {
	if why := a.call.refuseNode("Node", r.name, "Unexpected node id. Expected %d, but received %s"); why != "" {
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
		if why := q.refuseNode("Node", r.name, "Unexpected broker id, expected %d, but received %s"); why != "" {
			r.refuse(kerr.InvalidRequest, "%s", why)
			return
		}
	}
	err := a.change(r)
	var refused *configError
	switch {
	case errors.As(err, &refused):
		r.refuse(refused.err, "%s", refused.message)
	case err != nil:
		q.server.o.Log.Error("alteration of broker configs failed", slog.Any("error", err))
		r.fail(err)
	case !a.validateOnly:
		q.logAltered(r)
	}
}

// logAltered says what was altered, and what of it nothing here obeys.
func (q *call) logAltered(r *changed) {
	var names, idle []string
	for _, c := range r.configs {
		names = append(names, c.name)
		if !q.server.acts(c.name) {
			idle = append(idle, c.name)
		}
	}
	q.server.o.Log.Info("altered broker configs", slog.String("broker", r.name), slog.Any("configs", names), slog.String("principal", principal(q.conn.Identity())))
	if len(idle) > 0 {
		q.server.o.Log.Warn("configs are kept and described, but have no effect here", slog.Any("configs", idle))
	}
}

// acts tells whether a dynamic config is obeyed.
func (s *Server) acts(name string) bool {
	known, ok := kafkaconfig.Resolve(name)
	switch {
	case !ok:
		return false
	case known.Security:
		return true
	case slices.Contains(engine.Obeys(), known.Name) && known.Listener == "" && known.Name != "log.cleaner.backoff.ms":
		return !s.o.Engine.Remote()
	}
	switch known.Name {
	case dynamicconfig.MaxConnections, dynamicconfig.ConnectionRate, dynamicconfig.MaxPerIP, dynamicconfig.PerIPOverrides, dynamicconfig.MaxSSL,
		"client.config.max.bytes", threadsConfig, "num.network.threads", "listeners", "listener.security.protocol.map", "ssl.client.auth", "ssl.enabled.protocols", "ssl.cipher.suites",
		"ssl.principal.mapping.rules", "sasl.enabled.mechanisms", "sasl.jaas.config", "connections.max.reauth.ms":
		return true
	}
	return false
}

// change is one alteration of broker configs, alone at its time: checked, stored, put to work.
func (a *alteration) change(r *changed) error {
	s := a.call.server
	if err := s.o.Metadata.CatchUp(a.call.ctx); err != nil {
		return err
	}
	s.altering.Lock()
	defer s.altering.Unlock()
	s.catchUp()
	now := s.brokerConfigs()
	records, next, err := now.admit(r, a.replace, s.o.Properties.Fixed)
	if err != nil {
		return err
	}
	named := make(map[string]bool, len(r.configs))
	for _, c := range r.configs {
		named[c.name] = true
	}
	prepared, err := s.prepare(now, next, named)
	if err != nil {
		return err
	}
	if err := s.refuseUnderELR(r, records); a.validateOnly || err != nil {
		prepared.Discard()
		return err
	}
	if err := s.o.Metadata.Append(a.call.ctx, records...); err != nil {
		prepared.Discard()
		return err
	}
	a.finish = append(a.finish, prepared.Commit())
	s.inForce = next
	return nil
}

// refuseUnderELR is what the controller says about min.insync.replicas, when all else is well: with eligible leader
// replicas it is the cluster's alone, also where an alteration would change nothing.
func (s *Server) refuseUnderELR(r *changed, records []metadata.Record) error {
	if s.o.Metadata.Image().Feature(eligibleLeaderReplicas) < 1 {
		return nil
	}
	named := slices.ContainsFunc(r.configs, func(c changedConfig) bool { return c.name == minInsyncReplicas })
	removed := slices.ContainsFunc(r.configs, func(c changedConfig) bool {
		return c.name == minInsyncReplicas && c.op == kmsg.IncrementalAlterConfigOpDelete
	}) || slices.ContainsFunc(records, func(record metadata.Record) bool { // by a replacement that does not have it
		set, ok := record.(metadata.SetConfig)
		return ok && set.Name == minInsyncReplicas && set.Value == nil
	})
	switch {
	case r.name != "" && (named || removed):
		return &configError{kerr.InvalidConfig, "Broker-level min.insync.replicas cannot be altered while ELR is enabled."}
	case r.name == "" && removed:
		return &configError{kerr.InvalidConfig, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."}
	}
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
func (b *brokerConfigs) admit(r *changed, replace bool, fixed func(string) bool) (records []metadata.Record, next *brokerConfigs, err error) {
	resource, old := metadata.Resource{Type: metadata.ResourceBroker, Name: b.node}, b.perBroker
	if r.name == "" {
		resource.Name, old = "", b.clusterWide
	}
	after := map[string]string{}
	if !replace {
		maps.Copy(after, old)
	}
	for i := range r.configs {
		if op := r.configs[i].op; op < kmsg.IncrementalAlterConfigOpSet || op > kmsg.IncrementalAlterConfigOpSubtract {
			return nil, nil, invalidRequest("Unknown operations type %d", int8(op))
		}
	}
	for i := range r.configs {
		c := &r.configs[i]
		value, keep, err := c.result(old)
		if err != nil {
			return nil, nil, err
		}
		if keep {
			after[c.name] = value
		} else {
			delete(after, c.name)
		}
	}
	if fixed == nil {
		fixed = func(string) bool { return false }
	}
	if err := dynamicconfig.CheckNames(after, r.name != "", fixed); err != nil {
		return nil, nil, invalidRequest("%s", err)
	}
	changed := *b
	if r.name == "" {
		changed.clusterWide = after
	} else {
		changed.perBroker = after
	}
	return difference(resource, old, after), &changed, nil
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
	verb := "append"
	if c.op == kmsg.IncrementalAlterConfigOpSubtract {
		verb = "subtract"
	}
	known, ok := kafkaconfig.Lookup(c.name)
	switch {
	case !ok:
		return "", false, &configError{kerr.InvalidConfig, "Unknown config name: " + c.name}
	case known.Type != kafkaconfig.List:
		return "", false, &configError{kerr.InvalidConfig, fmt.Sprintf("Config value %s is not allowed for config key: %s", verb, c.name)}
	}
	now, has := old[c.name]
	if !has && known.Default != nil {
		now = *known.Default
	}
	return withEntries(now, c.op, *c.value), true, nil
}

// withEntries is a list to which entries are appended, or from which they are subtracted.
func withEntries(list string, op kmsg.IncrementalAlterConfigOp, changed string) string {
	var entries []string
	if list != "" {
		entries = strings.Split(list, ",")
	}
	for e := range strings.SplitSeq(changed, ",") {
		at := slices.Index(entries, e)
		switch {
		case op == kmsg.IncrementalAlterConfigOpSubtract && at >= 0:
			entries = slices.Delete(entries, at, at+1)
		case op == kmsg.IncrementalAlterConfigOpAppend && at < 0:
			entries = append(entries, e)
		}
	}
	return strings.Join(entries, ",")
}
