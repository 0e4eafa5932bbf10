package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
)

// incrementalAlterConfigs sets and removes single dynamic configs.
//
// Versions: 0-1.
// Needs: ALTER_CONFIGS on CLUSTER (brokers, loggers, client metrics), on each TOPIC, on each GROUP.
// Differs from Kafka: what a listener obeys (mechanisms, users, client certificates, lifetimes) acts at once, where Kafka
// waits for a restart; so what it could not obey is refused; there are no loggers whose level could be set. Subscriptions to
// clients' metrics are kept, and no client is asked for metrics.
func incrementalAlterConfigs(q *call, req *kmsg.IncrementalAlterConfigsRequest) {
	a := alteration{call: q, validateOnly: req.ValidateOnly}
	for i := range req.Resources {
		r := &req.Resources[i]
		c := changed{kind: r.ResourceType, name: r.ResourceName}
		for _, config := range r.Configs {
			c.configs = append(c.configs, changedConfig{name: config.Name, op: config.Op, value: config.Value})
		}
		a.resources = append(a.resources, c)
	}
	a.run(func(places []int) kmsg.Request {
		ask := *req
		ask.Resources = at(req.Resources, places)
		for i := range ask.Resources {
			q.wholeLists(&ask.Resources[i])
		}
		return &ask
	}, func(answer kmsg.Response, i int) (int16, *string) {
		results := answer.(*kmsg.IncrementalAlterConfigsResponse).Resources
		if i >= len(results) {
			return kerr.UnknownServerError.Code, nil
		}
		return results[i].ErrorCode, results[i].ErrorMessage
	}, func() kmsg.Response {
		resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
		for _, r := range a.resources {
			out := kmsg.NewIncrementalAlterConfigsResponseResource()
			out.ResourceType, out.ResourceName, out.ErrorCode, out.ErrorMessage = r.kind, r.name, r.code, r.message
			resp.Resources = append(resp.Resources, out)
		}
		return resp
	})
}

// wholeLists makes a whole list of what is added to, or taken off, a list of a topic: as Kafka's controller, it begins with what the
// topic has itself, or with the default of topics, whatever the broker's is, and has each entry once.
func (q *call) wholeLists(r *kmsg.IncrementalAlterConfigsRequestResource) {
	if r.ResourceType != kmsg.ConfigResourceTypeTopic {
		return
	}
	var own map[string]string
	r.Configs = slices.Clone(r.Configs) // the request is the caller's
	for i := range r.Configs {
		c := &r.Configs[i]
		if c.Op != kmsg.IncrementalAlterConfigOpAppend && c.Op != kmsg.IncrementalAlterConfigOpSubtract || c.Value == nil {
			continue
		}
		list, ok := topicListDefault(c.Name)
		if !ok {
			continue
		}
		if own == nil {
			own = q.ownConfigs(r.ResourceName)
		}
		if set, has := own[c.Name]; has {
			list = set
		}
		c.Value, c.Op = new(withEntries(list, c.Op, *c.Value)), kmsg.IncrementalAlterConfigOpSet
	}
}

// topicListDefault is what a list of topics is where none is set; ok is false for what is no list.
func topicListDefault(name string) (value string, ok bool) {
	for _, row := range kafkaconfig.Topic() {
		if row.Name == name && row.Type == kafkaconfig.List && row.Default != nil {
			return *row.Default, true
		}
	}
	return "", false
}

// ownConfigs are the configs that a topic has itself. It waits for the data plane.
func (q *call) ownConfigs(topic string) map[string]string {
	own := map[string]string{}
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	req.Resources = append(req.Resources, resource)
	answer, err := q.server.o.Engine.Request(q.ctx, req)
	if err != nil {
		return own
	}
	for _, r := range answer.(*kmsg.DescribeConfigsResponse).Resources {
		for _, c := range r.Configs {
			if c.Source == kmsg.ConfigSourceDynamicTopicConfig && c.Value != nil {
				own[c.Name] = *c.Value
			}
		}
	}
	return own
}

// replaceGroup gives a group these configs and no others. The data plane has no older API for groups: what is not named is deleted. It
// waits for the data plane.
func (q *call) replaceGroup(r *changed, validateOnly bool) {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version, req.ValidateOnly = 1, validateOnly
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = r.kind, r.name
	named := map[string]bool{}
	for _, c := range r.configs {
		named[c.name] = true
		resource.Configs = append(resource.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: c.name, Op: kmsg.IncrementalAlterConfigOpSet, Value: c.value})
	}
	for _, row := range kafkaconfig.Group() {
		if !named[row.Name] {
			resource.Configs = append(resource.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: row.Name, Op: kmsg.IncrementalAlterConfigOpDelete})
		}
	}
	req.Resources = append(req.Resources, resource)
	answer, err := q.server.o.Engine.Request(q.ctx, req)
	if err != nil {
		r.refuse(kerr.UnknownServerError, "%s", kerr.UnknownServerError.Description)
		return
	}
	for _, result := range answer.(*kmsg.IncrementalAlterConfigsResponse).Resources {
		r.code, r.message = result.ErrorCode, result.ErrorMessage
	}
}
