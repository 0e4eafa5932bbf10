package api

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/acl"
)

// describeConfigs tells configs, where each value comes from and what it hides.
//
// Versions: 1-4.
// Needs: DESCRIBE_CONFIGS on CLUSTER (brokers, loggers, client metrics), on each TOPIC, on each GROUP.
// Differs from Kafka: there are no loggers whose level could be told.
func describeConfigs(q *call, req *kmsg.DescribeConfigsRequest) {
	resp := kmsg.NewPtrDescribeConfigsResponse()
	resp.Resources = make([]kmsg.DescribeConfigsResponseResource, len(req.Resources))
	ask := *req
	ask.Resources = nil
	if slices.ContainsFunc(req.Resources, func(r kmsg.DescribeConfigsRequestResource) bool { return !describable(r.ResourceType) }) {
		q.refuse(req, kerr.InvalidRequest, malformed)
		return
	}
	var places []int // in the answer, of the resources that the data plane describes
	for i := range req.Resources {
		r := &req.Resources[i]
		// Nothing tells whether a resource is there before it is authorized.
		if kind, name := protectedBy(r.ResourceType, r.ResourceName); !q.may(acl.DescribeConfigs, kind, name) {
			out := &resp.Resources[i]
			*out = kmsg.NewDescribeConfigsResponseResource()
			out.ResourceType, out.ResourceName, out.ErrorCode = r.ResourceType, r.ResourceName, denial(kind).Code
			out.ErrorMessage = new(denialText(kind))
			continue
		}
		switch r.ResourceType {
		case kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeGroupConfig:
			if q.server.hiddenConfig(r.ResourceType, r.ResourceName) {
				out := &resp.Resources[i]
				*out = kmsg.NewDescribeConfigsResponseResource()
				out.ResourceType, out.ResourceName, out.ErrorCode = r.ResourceType, r.ResourceName, kerr.UnknownTopicOrPartition.Code
				out.ErrorMessage = new(kerr.UnknownTopicOrPartition.Description)
				continue
			}
			if r.ResourceType == kmsg.ConfigResourceTypeGroupConfig && r.ResourceName == "" {
				out := &resp.Resources[i]
				*out = kmsg.NewDescribeConfigsResponseResource()
				out.ResourceType, out.ErrorCode, out.ErrorMessage = r.ResourceType, kerr.InvalidRequest.Code, new("Group name must not be empty")
				continue
			}
			ask.Resources = append(ask.Resources, *r)
			places = append(places, i)
		default:
			resp.Resources[i] = q.describeResource(req, r)
		}
	}
	if len(places) == 0 {
		answerDescribed(q, resp)
		return
	}
	q.ask(&ask, func(answer kmsg.Response) {
		described := answer.(*kmsg.DescribeConfigsResponse).Resources
		for i, place := range places {
			if i >= len(described) {
				break
			}
			resp.Resources[place] = described[i]
			q.server.complete(&resp.Resources[place], req, &req.Resources[place])
		}
		answerDescribed(q, resp)
	})
}

// answerDescribed has no messages that are null.
func answerDescribed(q *call, resp *kmsg.DescribeConfigsResponse) {
	for i := range resp.Resources {
		if r := &resp.Resources[i]; r.ErrorMessage == nil {
			r.ErrorMessage = new(string)
		}
	}
	q.answer(resp)
}

// malformed is what Kafka says of a whole request when a resource of it is of a type that cannot be described.
const malformed = "This most likely occurs because of a request being malformed by the client library or the message was sent to an " +
	"incompatible broker. See the broker logs for more details."

// describable tells whether resources of a type have configs.
func describable(kind kmsg.ConfigResourceType) bool {
	switch kind {
	case kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeClientMetrics,
		kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeBrokerLogger:
		return true
	default:
		return false
	}
}

// complete makes what the data plane said of a resource Kafka's answer.
func (s *Server) complete(out *kmsg.DescribeConfigsResponseResource, req *kmsg.DescribeConfigsRequest, asked *kmsg.DescribeConfigsRequestResource) {
	switch {
	case out.ErrorCode != 0:
	case out.ResourceType == kmsg.ConfigResourceTypeTopic:
		out.Configs = s.topicConfigs().describe(out.Configs, asked.ConfigNames, req.IncludeSynonyms, req.IncludeDocumentation)
	default:
		out.Configs = s.groupConfigs().describe(out.Configs, asked.ConfigNames, req.IncludeSynonyms, req.IncludeDocumentation)
	}
}

// completeSynonyms puts the value in force before those it hides, as Kafka lists them.
func completeSynonyms(c *kmsg.DescribeConfigsResponseResourceConfig, asked bool) {
	if !asked {
		c.ConfigSynonyms = nil
		return
	}
	if len(c.ConfigSynonyms) > 0 && c.ConfigSynonyms[0].Source == c.Source {
		return
	}
	own := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
	own.Name, own.Value, own.Source = c.Name, c.Value, c.Source
	c.ConfigSynonyms = append([]kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{own}, c.ConfigSynonyms...)
}

// describeResource describes what the front door answers for: brokers, their loggers, and subscriptions to clients' metrics.
func (q *call) describeResource(req *kmsg.DescribeConfigsRequest, r *kmsg.DescribeConfigsRequestResource) kmsg.DescribeConfigsResponseResource {
	out := kmsg.NewDescribeConfigsResponseResource()
	out.ResourceType, out.ResourceName = r.ResourceType, r.ResourceName
	refuse := func(message string) kmsg.DescribeConfigsResponseResource {
		out.ErrorCode, out.ErrorMessage = kerr.InvalidRequest.Code, &message
		return out
	}
	switch r.ResourceType {
	case kmsg.ConfigResourceTypeBroker:
		if r.ResourceName != "" {
			if why := q.refuseNode("Broker", r.ResourceName, "Unexpected broker id, expected %d or empty string, but received %s"); why != "" {
				return refuse(why)
			}
		}
		out.Configs = q.server.brokerConfigs().describe(r, req.IncludeSynonyms, req.IncludeDocumentation)
	case kmsg.ConfigResourceTypeClientMetrics:
		q.server.describeSubscription(&out, r, req.IncludeSynonyms, req.IncludeDocumentation)
	case kmsg.ConfigResourceTypeBrokerLogger:
		if r.ResourceName == "" {
			return refuse("Broker id must not be empty")
		}
		if why := q.refuseNode("Broker", r.ResourceName, "Unexpected broker id, expected %d but received %s"); why != "" {
			return refuse(why)
		}
	default:
		return refuse("Unsupported resource type: " + r.ResourceType.String())
	}
	return out
}
