package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// incrementalAlterConfigs sets and removes single dynamic configs.
//
// Versions: 0-1.
// Needs: ALTER_CONFIGS on CLUSTER (brokers, loggers, client metrics), on each TOPIC, on each GROUP.
// Differs from Kafka: what a listener obeys (mechanisms, users, client certificates, lifetimes) acts at once, where Kafka
// waits for a restart; so what it could not obey is refused; there are no loggers whose level could be set. Subscriptions to
// clients' metrics are kept, and no client is asked for metrics. What is appended to a topic's list that is not set does not begin with the
// default.
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
