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
			q.beginWithDefaults(&ask.Resources[i])
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

// beginWithDefaults makes a whole list of what is added to, or taken off, a list that a topic does not have itself: as Kafka's
// controller, it begins with the default of topics, whatever the broker's is; the data plane would begin with nothing.
func (q *call) beginWithDefaults(r *kmsg.IncrementalAlterConfigsRequestResource) {
	if r.ResourceType != kmsg.ConfigResourceTypeTopic {
		return
	}
	var own map[string]bool
	r.Configs = slices.Clone(r.Configs) // the request is the caller's
	for i := range r.Configs {
		c := &r.Configs[i]
		if c.Op != kmsg.IncrementalAlterConfigOpAppend && c.Op != kmsg.IncrementalAlterConfigOpSubtract || c.Value == nil {
			continue
		}
		from := topicListDefault(c.Name)
		if from == "" {
			continue
		}
		if own == nil {
			own = q.ownConfigs(r.ResourceName)
		}
		if !own[c.Name] {
			c.Value, c.Op = new(withEntries(from, c.Op, *c.Value)), kmsg.IncrementalAlterConfigOpSet
		}
	}
}

// topicListDefault is what a list of topics is where none is set; "" for what is no list.
func topicListDefault(name string) string {
	for _, row := range kafkaconfig.Topic() {
		if row.Name == name && row.Type == kafkaconfig.List && row.Default != nil {
			return *row.Default
		}
	}
	return ""
}

// ownConfigs are the names of the configs that a topic has itself. It waits for the data plane.
func (q *call) ownConfigs(topic string) map[string]bool {
	own := map[string]bool{}
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, topic
	req.Resources = append(req.Resources, resource)
	answer, err := q.server.o.Engine.Request(q.server.ctx, req)
	if err != nil {
		return own
	}
	for _, r := range answer.(*kmsg.DescribeConfigsResponse).Resources {
		for _, c := range r.Configs {
			if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
				own[c.Name] = true
			}
		}
	}
	return own
}
