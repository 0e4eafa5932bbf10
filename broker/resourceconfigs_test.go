package broker_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
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

// resourcesDiffer lists rules that the data plane keeps in its own way, by step.
func resourcesDiffer() map[string]string {
	return map[string]string{
		"group set and listed 4": "a group whose configs are all deleted is listed still",
		"list of all 0":          "likewise",
	}
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
				if _, differs := resourcesDiffer()[fmt.Sprintf("%s %d", c.Rule, i)]; differs {
					continue
				}
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
