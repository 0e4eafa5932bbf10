package broker_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// resourceStep is one request about the configs of one resource, and what Kafka 4.4.0 answered.
type resourceStep struct {
	Do       string // incremental, legacy, describe, list
	Kind     int8
	Name     string
	Names    []string
	Validate bool
	Configs  []struct {
		Op, Name string
		Value    *string
	}
	Answer []string
}

// The file was written by a program that sent the requests to a real Kafka with one topic, t.
func TestConfigsOfResourcesAreAnsweredAsKafkaAnswers(t *testing.T) { //nolint:tparallel // one broker is asked by one case after the other
	t.Parallel()
	content, err := os.ReadFile("testdata/resource-configs-4.4.0.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Rule  string
		Steps []resourceStep
	}
	if err := json.Unmarshal(content, &cases); err != nil {
		t.Fatal(err)
	}
	r := dial(t, start(t, plainConfig()).Addr("PLAINTEXT"))
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version = 7
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", 1, 1
	create.Topics = append(create.Topics, topic)
	if got := ask[*kmsg.CreateTopicsResponse](r, create).Topics[0]; got.ErrorCode != 0 {
		t.Fatalf("create topic t: %d", got.ErrorCode)
	}
	forget := resourceStep{Do: "incremental", Kind: 16, Name: "m"}
	if err := json.Unmarshal([]byte(`[{"op": "delete", "name": "interval.ms"}, {"op": "delete", "name": "match"}, {"op": "delete", "name": "metrics"}]`), &forget.Configs); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Rule, func(t *testing.T) {
			for i := range c.Steps {
				s := &c.Steps[i]
				if got := resourceAnswer(r, s); !slices.Equal(got, s.Answer) {
					t.Errorf("step %d, %s of %d %q %+v = %q, want %q", i, s.Do, s.Kind, s.Name, s.Configs, got, s.Answer)
				}
			}
			resourceAnswer(r, &forget)
		})
	}
}

func resourceAnswer(r *raw, s *resourceStep) []string {
	r.t.Helper()
	kind := kmsg.ConfigResourceType(s.Kind)
	switch s.Do {
	case "incremental":
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version, req.ValidateOnly = 1, s.Validate
		resource := kmsg.NewIncrementalAlterConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kind, s.Name
		for _, c := range s.Configs {
			config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			config.Name, config.Op, config.Value = c.Name, operation(c.Op), c.Value
			resource.Configs = append(resource.Configs, config)
		}
		req.Resources = append(req.Resources, resource)
		got := ask[*kmsg.IncrementalAlterConfigsResponse](r, req).Resources[0]
		return []string{fmt.Sprintf("%d %s", got.ErrorCode, orNil(got.ErrorMessage))}
	case "legacy":
		req := kmsg.NewPtrAlterConfigsRequest()
		req.Version, req.ValidateOnly = 2, s.Validate
		resource := kmsg.NewAlterConfigsRequestResource()
		resource.ResourceType, resource.ResourceName = kind, s.Name
		for _, c := range s.Configs {
			config := kmsg.NewAlterConfigsRequestResourceConfig()
			config.Name, config.Value = c.Name, c.Value
			resource.Configs = append(resource.Configs, config)
		}
		req.Resources = append(req.Resources, resource)
		got := ask[*kmsg.AlterConfigsResponse](r, req).Resources[0]
		return []string{fmt.Sprintf("%d %s", got.ErrorCode, orNil(got.ErrorMessage))}
	case "describe":
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.Version, req.IncludeSynonyms = 4, true
		resource := kmsg.NewDescribeConfigsRequestResource()
		resource.ResourceType, resource.ResourceName, resource.ConfigNames = kind, s.Name, s.Names
		req.Resources = append(req.Resources, resource)
		got := ask[*kmsg.DescribeConfigsResponse](r, req).Resources[0]
		var configs []string
		for _, c := range got.Configs {
			line := fmt.Sprintf("%s=%s src=%d ro=%v sens=%v type=%d syn=", c.Name, orNil(c.Value), c.Source, c.ReadOnly, c.IsSensitive, c.ConfigType)
			var synonyms strings.Builder
			for _, s := range c.ConfigSynonyms {
				fmt.Fprintf(&synonyms, " %d:%s=%s", s.Source, s.Name, orNil(s.Value))
			}
			configs = append(configs, line+synonyms.String())
		}
		return append([]string{fmt.Sprintf("%d %s", got.ErrorCode, orNil(got.ErrorMessage))}, sorted(configs)...)
	default:
		req := kmsg.NewPtrListConfigResourcesRequest()
		if req.Version = 1; s.Kind > 0 {
			req.ResourceTypes = []int8{s.Kind}
		}
		got := ask[*kmsg.ListConfigResourcesResponse](r, req)
		var resources []string
		for _, resource := range got.ConfigResources {
			resources = append(resources, fmt.Sprintf("%d %s", resource.Type, resource.Name))
		}
		return append([]string{fmt.Sprintf("code %d", got.ErrorCode)}, sorted(resources)...)
	}
}

// The texts are those of Kafka 4.4.0 with the ranges that it has where none is set.
func TestConfigsOfGroupsStayInTheRangesOfTheBroker(t *testing.T) {
	t.Parallel()
	cfg := plainConfig()
	r := dial(t, start(t, cfg).Addr("PLAINTEXT"))
	alter := func(req kmsg.Request) string {
		t.Helper()
		var code int16
		var message *string
		switch resp := ask[kmsg.Response](r, req).(type) {
		case *kmsg.IncrementalAlterConfigsResponse:
			code, message = resp.Resources[0].ErrorCode, resp.Resources[0].ErrorMessage
		case *kmsg.AlterConfigsResponse:
			code, message = resp.Resources[0].ErrorCode, resp.Resources[0].ErrorMessage
		}
		if message == nil {
			return strconv.Itoa(int(code))
		}
		return fmt.Sprint(code, " ", *message)
	}
	one := func(name, value string) *kmsg.IncrementalAlterConfigsRequest {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version = 1
		req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
			ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "g",
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Value: &value}},
		}}
		return req
	}
	for _, c := range []struct{ name, value, want string }{
		{"consumer.session.timeout.ms", "44999", "40 consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive."},
		{"consumer.session.timeout.ms", " 50000 ", "0"},
		{"share.delivery.count.limit", "11", "40 share.delivery.count.limit must be in the range 2 to 10 inclusive."},
		{"streams.num.standby.replicas", "3", "40 streams.num.standby.replicas must be less than or equal to 2"},
		{"streams.num.standby.replicas", "1", "0"},
		{"streams.assignor.name", "x", "40 streams.assignor.name 'x' is not a registered task assignor. Registered assignors are: [sticky]."},
		{"streams.rack.aware.assignment.tags", "a,a", "40 streams.rack.aware.assignment.tags must not contain duplicate tag keys."},
		{"no.such", "1", "40 Unknown group config name: no.such"},
	} {
		if got := alter(one(c.name, c.value)); got != c.want {
			t.Errorf("%s=%s: %s, want %s", c.name, c.value, got, c.want)
		}
	}
	own := func() map[string]string {
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.Version = 4
		req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "g"}}
		set := map[string]string{}
		for _, c := range ask[*kmsg.DescribeConfigsResponse](r, req).Resources[0].Configs {
			if c.Source == kmsg.ConfigSourceGroupConfig {
				set[c.Name] = *c.Value
			}
		}
		return set
	}
	if got, want := own(), map[string]string{"consumer.session.timeout.ms": "50000", "streams.num.standby.replicas": "1"}; !maps.Equal(got, want) {
		t.Errorf("the group has %v, want %v", got, want)
	}
	replace := kmsg.NewPtrAlterConfigsRequest()
	replace.Version = 2
	replace.Resources = []kmsg.AlterConfigsRequestResource{{
		ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "g",
		Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "share.heartbeat.interval.ms", Value: new("6000")}},
	}}
	if got := alter(replace); got != "0" {
		t.Errorf("replace the configs of a group: %s, want 0", got)
	}
	if got, want := own(), map[string]string{"share.heartbeat.interval.ms": "6000"}; !maps.Equal(got, want) {
		t.Errorf("the group has %v, want %v alone", got, want)
	}
}

// What is appended to and subtracted from a list of a topic.
func TestListsOfTopicsHaveEachEntryOnce(t *testing.T) {
	t.Parallel()
	r := dial(t, start(t, plainConfig()).Addr("PLAINTEXT"))
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version = 7
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", 1, 1
	create.Topics = append(create.Topics, topic)
	ask[*kmsg.CreateTopicsResponse](r, create)
	for _, c := range []struct {
		op          kmsg.IncrementalAlterConfigOp
		name, value string
		want        string // the value, or the refusal
	}{
		{kmsg.IncrementalAlterConfigOpAppend, "cleanup.policy", "compact", "delete,compact"},
		{kmsg.IncrementalAlterConfigOpAppend, "cleanup.policy", "compact", "delete,compact"},
		{kmsg.IncrementalAlterConfigOpAppend, "cleanup.policy", "", "Configuration 'cleanup.policy' values must not be empty."},
		{kmsg.IncrementalAlterConfigOpSubtract, "cleanup.policy", "nonsense", "delete,compact"},
		{kmsg.IncrementalAlterConfigOpSubtract, "cleanup.policy", "delete", "compact"},
		{kmsg.IncrementalAlterConfigOpAppend, "leader.replication.throttled.replicas", "0:1,0:2", "0:1,0:2"},
		{kmsg.IncrementalAlterConfigOpSubtract, "leader.replication.throttled.replicas", "0:1", "0:2"},
	} {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version = 1
		req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
			ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t",
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: c.name, Op: c.op, Value: &c.value}},
		}}
		var got string
		if answer := ask[*kmsg.IncrementalAlterConfigsResponse](r, req).Resources[0]; answer.ErrorMessage != nil {
			got = *answer.ErrorMessage
		} else {
			describe := kmsg.NewPtrDescribeConfigsRequest()
			describe.Version = 4
			describe.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t", ConfigNames: []string{c.name}}}
			got = *ask[*kmsg.DescribeConfigsResponse](r, describe).Resources[0].Configs[0].Value
		}
		if got != c.want {
			t.Errorf("operation %d of %s with %q leads to %q, want %q", c.op, c.name, c.value, got, c.want)
		}
	}
}
