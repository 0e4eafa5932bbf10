package engine

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker/internal/kafkaconfig"
)

// admitAlterConfigs checks names and values of topics' and groups' configs, which the data plane takes on trust.
func admitAlterConfigs(e *Engine, req *kmsg.AlterConfigsRequest) (passage, error) {
	out := *req
	out.Resources = make([]kmsg.AlterConfigsRequestResource, 0, len(req.Resources))
	refused := map[int]kmsg.AlterConfigsResponseResource{}
	for i := range req.Resources {
		r := &req.Resources[i]
		values := make(map[string]*string, len(r.Configs))
		names := make([]string, len(r.Configs))
		for j, c := range r.Configs {
			values[c.Name], names[j] = c.Value, c.Name
		}
		v := admitResource(r.ResourceType, r.ResourceName, names, values)
		if v.err == nil {
			out.Resources = append(out.Resources, *r)
			continue
		}
		no := kmsg.NewAlterConfigsResponseResource()
		no.ResourceType, no.ResourceName = r.ResourceType, r.ResourceName
		no.ErrorCode, no.ErrorMessage = v.err.Code, &v.why
		refused[i] = no
	}
	return passage{req: &out, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.AlterConfigsResponse)
		r.Resources = interleave(len(req.Resources), refused, r.Resources)
		for i := range r.Resources {
			c := &r.Resources[i]
			e.policies.forget(c.ResourceName)
			c.ErrorMessage = missingTopic(c.ErrorCode, c.ResourceName, c.ErrorMessage)
		}
		return r, nil
	}}, nil
}

// admitIncrementalAlterConfigs is [admitAlterConfigs] for the newer API. Configs that nobody knows may be deleted: the
// data plane does not get to see that.
func admitIncrementalAlterConfigs(e *Engine, req *kmsg.IncrementalAlterConfigsRequest) (passage, error) {
	out := *req
	out.Resources = make([]kmsg.IncrementalAlterConfigsRequestResource, 0, len(req.Resources))
	refused := map[int]kmsg.IncrementalAlterConfigsResponseResource{}
	for i := range req.Resources {
		r, v := admitChanges(req.Resources[i])
		if v.err == nil {
			out.Resources = append(out.Resources, r)
			continue
		}
		no := kmsg.NewIncrementalAlterConfigsResponseResource()
		no.ResourceType, no.ResourceName = r.ResourceType, r.ResourceName
		no.ErrorCode, no.ErrorMessage = v.err.Code, &v.why
		refused[i] = no
	}
	return passage{req: &out, correct: func(resp kmsg.Response) (kmsg.Response, error) {
		r, _ := resp.(*kmsg.IncrementalAlterConfigsResponse)
		r.Resources = interleave(len(req.Resources), refused, r.Resources)
		for i := range r.Resources {
			c := &r.Resources[i]
			e.policies.forget(c.ResourceName)
			c.ErrorMessage = missingTopic(c.ErrorCode, c.ResourceName, c.ErrorMessage)
		}
		if err := e.groups.alter(req, r); err != nil {
			return nil, fmt.Errorf("keep group configs: %w", err)
		}
		return r, nil
	}}, nil
}

// admitChanges judges the changes of one resource, and leaves out what there is nothing to do about: also groups' configs that the
// data plane does not know, which [groupConfigs] keeps.
func admitChanges(r kmsg.IncrementalAlterConfigsRequestResource) (kmsg.IncrementalAlterConfigsRequestResource, verdict) {
	changes := r.Configs
	r.Configs = nil
	configs, _ := resourceConfigs(r.ResourceType)
	values := map[string]*string{}
	var names []string
	for _, c := range changes {
		config, known := configs[c.Name]
		switch {
		case c.Op == kmsg.IncrementalAlterConfigOpDelete && !known:
			continue
		case c.Op == kmsg.IncrementalAlterConfigOpDelete:
		case (c.Op == kmsg.IncrementalAlterConfigOpAppend || c.Op == kmsg.IncrementalAlterConfigOpSubtract) &&
			(config.Type != kafkaconfig.List || r.ResourceType != kmsg.ConfigResourceTypeTopic): // a group's list is none to Kafka
			verb := map[kmsg.IncrementalAlterConfigOp]string{kmsg.IncrementalAlterConfigOpAppend: "APPEND", kmsg.IncrementalAlterConfigOpSubtract: "SUBTRACT"}[c.Op]
			return r, verdict{kerr.InvalidConfig, fmt.Sprintf("Can't %s to key %s because its type is not LIST.", verb, c.Name)}
		case c.Op == kmsg.IncrementalAlterConfigOpSubtract: // whatever it is, it is not there afterwards
		default:
			names = append(names, c.Name)
			values[c.Name] = c.Value
		}
		if r.ResourceType == kmsg.ConfigResourceTypeGroupConfig && !ofDataPlane(c.Name) {
			continue
		}
		r.Configs = append(r.Configs, c)
	}
	return r, admitResource(r.ResourceType, r.ResourceName, names, values)
}

// admitResource judges configs in Kafka's order: is there such a resource at all, is it named well, do the configs exist,
// are their values good. Whether a topic is there is seen last, by the data plane.
func admitResource(t kmsg.ConfigResourceType, name string, names []string, values map[string]*string) verdict {
	configs, kind := resourceConfigs(t)
	switch {
	case configs == nil:
		return verdict{kerr.InvalidRequest, fmt.Sprintf("Unhandled resource type %d", t)}
	case name == "": // of all topics or groups, which there are no configs of
		return verdict{kerr.InvalidRequest, fmt.Sprintf("Default %s resources are not allowed.", kind)}
	}
	if why := CheckTopicName(name); t == kmsg.ConfigResourceTypeTopic && why != "" {
		return verdict{kerr.InvalidTopicException, why}
	}
	for _, n := range names {
		if _, known := configs[n]; !known {
			return verdict{kerr.InvalidConfig, checkConfig(configs, kind, n, nil)}
		}
	}
	for _, n := range names {
		if why := checkConfig(configs, kind, n, values[n]); why != "" {
			return verdict{kerr.InvalidConfig, why}
		}
	}
	return verdict{}
}

// resourceConfigs are the configs of a kind of resource that are kept here, and Kafka's word for it.
func resourceConfigs(t kmsg.ConfigResourceType) (configs map[string]kafkaconfig.ResourceConfig, kind string) {
	switch t {
	case kmsg.ConfigResourceTypeTopic:
		return topicConfigTable(), "topic"
	case kmsg.ConfigResourceTypeGroupConfig:
		return groupConfigTable(), "group"
	default:
		return nil, ""
	}
}

// missingTopic is what Kafka says of a topic that is not there, where the data plane says nothing.
func missingTopic(code int16, name string, message *string) *string {
	if code == kerr.UnknownTopicOrPartition.Code && message == nil {
		return new(fmt.Sprintf("The topic '%s' does not exist.", name))
	}
	return message
}
