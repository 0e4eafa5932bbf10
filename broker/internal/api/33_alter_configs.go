package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// alterConfigs replaces all dynamic configs of each resource by those given.
//
// Versions: 0-2.
// Needs: ALTER_CONFIGS on CLUSTER (brokers), on each TOPIC, on each GROUP.
// Differs from Kafka: what a listener obeys (mechanisms, users, client certificates, lifetimes) acts at once, where Kafka
// waits for a restart; so what it could not obey is refused.
func alterConfigs(q *call, req *kmsg.AlterConfigsRequest) {
	a := alteration{call: q, validateOnly: req.ValidateOnly, replace: true}
	for i := range req.Resources {
		r := &req.Resources[i]
		c := changed{kind: r.ResourceType, name: r.ResourceName}
		for _, config := range r.Configs {
			c.configs = append(c.configs, changedConfig{name: config.Name, op: kmsg.IncrementalAlterConfigOpSet, value: config.Value})
		}
		a.resources = append(a.resources, c)
	}
	a.run(func(places []int) kmsg.Request {
		ask := *req
		ask.Resources = at(req.Resources, places)
		return &ask
	}, func(answer kmsg.Response, i int) (int16, *string) {
		results := answer.(*kmsg.AlterConfigsResponse).Resources
		if i >= len(results) {
			return kerr.UnknownServerError.Code, nil
		}
		return results[i].ErrorCode, results[i].ErrorMessage
	}, func() kmsg.Response {
		resp := kmsg.NewPtrAlterConfigsResponse()
		for _, r := range a.resources {
			out := kmsg.NewAlterConfigsResponseResource()
			out.ResourceType, out.ResourceName, out.ErrorCode, out.ErrorMessage = r.kind, r.name, r.code, r.message
			resp.Resources = append(resp.Resources, out)
		}
		return resp
	})
}
