package fidelity

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/e2e/internal/kit"
)

// The resources whose configs can be described, and what one may do to a config.
const (
	ofTopic   = kmsg.ConfigResourceTypeTopic
	ofBroker  = kmsg.ConfigResourceTypeBroker
	ofLogger  = kmsg.ConfigResourceTypeBrokerLogger
	ofClients = kmsg.ConfigResourceType(16)
	ofGroup   = kmsg.ConfigResourceType(32)

	set      = kmsg.IncrementalAlterConfigOpSet
	remove   = kmsg.IncrementalAlterConfigOpDelete
	add      = kmsg.IncrementalAlterConfigOpAppend
	subtract = kmsg.IncrementalAlterConfigOpSubtract
)

// change is one config of an IncrementalAlterConfigs or AlterConfigs.
type change struct {
	op    kmsg.IncrementalAlterConfigOp
	name  string
	value *string
}

// to is a change of a config to a value.
func to(name, value string) change { return change{set, name, &value} }

// incremental is an IncrementalAlterConfigs of one resource.
func incremental(validate bool, kind kmsg.ConfigResourceType, name string, changes ...change) *kmsg.IncrementalAlterConfigsRequest {
	r := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r.Version, r.ValidateOnly = 1, validate
	one := kmsg.NewIncrementalAlterConfigsRequestResource()
	one.ResourceType, one.ResourceName = kind, name
	for _, c := range changes {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Op, config.Value = c.name, c.op, c.value
		one.Configs = append(one.Configs, config)
	}
	r.Resources = append(r.Resources, one)
	return r
}

// replacing is an AlterConfigs of one resource: it has these configs afterwards and no others.
func replacing(validate bool, kind kmsg.ConfigResourceType, name string, changes ...change) *kmsg.AlterConfigsRequest {
	r := kmsg.NewPtrAlterConfigsRequest()
	r.Version, r.ValidateOnly = 2, validate
	one := kmsg.NewAlterConfigsRequestResource()
	one.ResourceType, one.ResourceName = kind, name
	for _, c := range changes {
		config := kmsg.NewAlterConfigsRequestResourceConfig()
		config.Name, config.Value = c.name, c.value
		one.Configs = append(one.Configs, config)
	}
	r.Resources = append(r.Resources, one)
	return r
}

// describing is a DescribeConfigs of one resource with synonyms and documentation, of all its configs where none is named.
func describing(kind kmsg.ConfigResourceType, name string, names ...string) *kmsg.DescribeConfigsRequest {
	r := kmsg.NewPtrDescribeConfigsRequest()
	r.Version, r.IncludeDocumentation, r.IncludeSynonyms = 4, true, true
	one := kmsg.NewDescribeConfigsRequestResource()
	one.ResourceType, one.ResourceName, one.ConfigNames = kind, name, names
	r.Resources = append(r.Resources, one)
	return r
}

// configs is the view of an answer to DescribeConfigs, with configs by name and of their documentation that there is some.
func (p *peer) configs(t *testing.T, req *kmsg.DescribeConfigsRequest) any {
	t.Helper()
	resp, err := p.request(t, "root", req)
	if err != nil {
		return err.Error()
	}
	answer, _ := resp.(*kmsg.DescribeConfigsResponse)
	var seen []any
	for i := range answer.Resources {
		one, _ := p.view(answer.Resources[i]).(map[string]any)
		list, _ := one["Configs"].([]any)
		for _, c := range list {
			c, _ := c.(map[string]any)
			if d, ok := c["Documentation"].(string); ok {
				c["Documentation"] = d != ""
			}
		}
		one["Configs"] = byName(list)
		if answer.Resources[i].ResourceType == ofLogger { // those of Java's classes that have logged
			one["Configs"] = nil
		}
		seen = append(seen, one)
	}
	return seen
}

// own is what a resource itself says of a config: its value, and whether it has one at all.
func (p *peer) own(t *testing.T, kind kmsg.ConfigResourceType, resource, name string) (string, bool) {
	t.Helper()
	answer, _ := p.root(t, describing(kind, resource, name)).(*kmsg.DescribeConfigsResponse)
	sources := map[kmsg.ConfigResourceType][]kmsg.ConfigSource{
		ofTopic: {kmsg.ConfigSourceDynamicTopicConfig}, ofBroker: {kmsg.ConfigSourceDynamicBrokerConfig, kmsg.ConfigSourceDynamicDefaultBrokerConfig},
		ofClients: {kmsg.ConfigSourceClientMetricsConfig}, ofGroup: {kmsg.ConfigSourceGroupConfig},
	}[kind]
	if resource == "" {
		sources = sources[1:]
	}
	for _, r := range answer.Resources {
		for _, c := range r.Configs {
			if c.Name == name && slices.Contains(sources, c.Source) && (resource == "" || kind != ofBroker || c.Source == sources[0]) {
				return text(c.Value), true
			}
		}
	}
	return "", false
}

// settled returns once p describes a config as a change leaves it: Kafka's broker learns of it after its controller has
// answered. want is "-" for no value of the resource's own; a value that must not be shown is "null". What does not come to
// be in time shows in what is compared.
func (p *peer) settled(t *testing.T, kind kmsg.ConfigResourceType, resource, name, want string) {
	t.Helper()
	var is string
	if !kit.Within(time.Minute, func() bool {
		var has bool
		if is, has = p.own(t, kind, resource, name); !has {
			is = "-"
		}
		return is == want
	}) {
		t.Logf("%s describes %s of %q as %s, not as %s", p.name, name, resource, is, want)
	}
}

// mutable lists the configs of a resource that p's answer says may be altered, and all.
func (p *peer) mutable(t *testing.T, kind kmsg.ConfigResourceType, name string) (some, all []string) {
	t.Helper()
	answer, _ := p.root(t, describing(kind, name)).(*kmsg.DescribeConfigsResponse)
	for _, c := range answer.Resources[0].Configs {
		all = append(all, c.Name)
		if !c.ReadOnly {
			some = append(some, c.Name)
		}
	}
	return some, all
}

// values are what is tried for every config; nil is null.
func values() []*string {
	all := []*string{nil}
	for _, v := range []string{
		"", "abc", "-2", "0", "1", "1.5", " 7 ", "100000", "2147483648", "9223372036854775808", "TRUE", "a,a", ",", "1:0,2:1",
	} {
		all = append(all, &v)
	}
	return all
}

func shown(v *string) string {
	if v == nil {
		return "null"
	}
	return strconv.Quote(*v)
}

// judged compares what becomes of values for each of some configs of a resource, without altering it.
func (b *both) judged(t *testing.T, area string, kind kmsg.ConfigResourceType, resource string, names []string, ops []kmsg.IncrementalAlterConfigOp, values []*string) {
	t.Helper()
	for _, name := range names {
		b.compare(t, area+"/"+name, func(t *testing.T, p *peer) any {
			seen := map[string]any{}
			for _, value := range values {
				for _, op := range ops {
					key := shown(value)
					if len(ops) > 1 {
						key = op.String() + " " + key
					}
					seen[key] = p.verdict(t, incremental(true, kind, resource, change{op, name, value}))
				}
			}
			return seen
		})
	}
}

// verdict is the code and the message of an altered resource.
func (p *peer) verdict(t *testing.T, req kmsg.Request) any {
	t.Helper()
	resp, err := p.request(t, "root", req)
	if err != nil {
		return err.Error()
	}
	switch resp := resp.(type) {
	case *kmsg.IncrementalAlterConfigsResponse:
		if len(resp.Resources) == 1 {
			return fmt.Sprintf("%d %s", resp.Resources[0].ErrorCode, p.portless(text(resp.Resources[0].ErrorMessage)))
		}
	case *kmsg.AlterConfigsResponse:
		if len(resp.Resources) == 1 {
			return fmt.Sprintf("%d %s", resp.Resources[0].ErrorCode, p.portless(text(resp.Resources[0].ErrorMessage)))
		}
	}
	return p.view(resp)
}

// portless is a text without what differs: ports, the folder of the peer, and Kafka's listener for its controller.
func (p *peer) portless(s string) string {
	for name, port := range p.ports {
		s = strings.ReplaceAll(s, ":"+strconv.Itoa(port), ":("+name+")")
	}
	s = strings.ReplaceAll(s, p.dir, "(folder)")
	return strings.ReplaceAll(strings.ReplaceAll(s, ", CONTROLLER://127.0.0.1:(CONTROLLER)", ""), ",CONTROLLER://127.0.0.1:(CONTROLLER)", "")
}

// ofKafkaAlone are configs of its controller, which brokerlab takes and has no use for, and of what each peer is started with.
func ofKafkaAlone() []string {
	return []string{
		"process.roles", "controller.listener.names", "controller.quorum.voters", "listener.security.protocol.map", "listeners", "log.dirs",
		"sasl.mechanism.controller.protocol", "sasl.mechanism.inter.broker.protocol", "listener.name.controller.sasl.enabled.mechanisms",
		"listener.name.controller.plain.sasl.jaas.config", "ssl.keystore.location", "ssl.truststore.location",
	}
}

func TestConfigsAreDescribedAlike(t *testing.T) {
	b := shared(t)
	for _, p := range b.peers() {
		p.makeTopics(t, 1, "configs.t")
	}
	describe := func(name string, req *kmsg.DescribeConfigsRequest) {
		b.compare(t, "configs/describe/"+name, func(t *testing.T, p *peer) any {
			seen := p.configs(t, req)
			list, _ := seen.([]any)
			for _, one := range list {
				one, _ := one.(map[string]any)
				configs, _ := one["Configs"].(map[string]any)
				for _, name := range ofKafkaAlone() {
					delete(configs, name)
				}
			}
			return seen
		})
	}
	version := func(v int16, req *kmsg.DescribeConfigsRequest) *kmsg.DescribeConfigsRequest {
		req.Version = v
		return req
	}
	for v := int16(1); v <= 4; v++ {
		describe(fmt.Sprintf("broker v%d", v), version(v, describing(ofBroker, "1")))
		describe(fmt.Sprintf("topic v%d", v), version(v, describing(ofTopic, "configs.t")))
		describe(fmt.Sprintf("group v%d", v), version(v, describing(ofGroup, "g")))
	}
	plain := describing(ofBroker, "1")
	plain.IncludeDocumentation, plain.IncludeSynonyms = false, false
	describe("broker without synonyms", plain)
	describe("all brokers", describing(ofBroker, ""))
	for _, name := range []string{"0", "2", "x", "01", "-1", "+1", " 1", "1 ", "2147483648", "1.0"} {
		describe(fmt.Sprintf("broker %q", name), describing(ofBroker, name))
		describe(fmt.Sprintf("logger %q", name), describing(ofLogger, name))
	}
	describe("logger of this broker", describing(ofLogger, "1"))
	describe("logger of none", describing(ofLogger, ""))
	for _, name := range []string{"nosuch", "no such", "", ".", strings.Repeat("x", 250), "__consumer_offsets"} {
		describe(fmt.Sprintf("topic %.20q", name), describing(ofTopic, name))
	}
	for _, name := range []string{"", "nosuch", "a b"} {
		describe(fmt.Sprintf("group %q", name), describing(ofGroup, name))
		describe(fmt.Sprintf("client metrics %q", name), describing(ofClients, name))
	}
	for _, kind := range []kmsg.ConfigResourceType{-1, 0, 1, 3, 64, 99, 127} {
		describe(fmt.Sprintf("resource type %d", kind), describing(kind, "x"))
	}
	describe("some names", describing(ofBroker, "1", "max.connections", "nosuch", "ssl.keystore.password", "max.connections"))
	describe("a name that is not there", describing(ofBroker, "1", "nosuch"))
	describe("names of a topic", describing(ofTopic, "configs.t", "segment.ms", "nosuch", ""))
	none := describing(ofBroker, "1")
	none.Resources[0].ConfigNames = []string{}
	describe("no names", none)
	twice := describing(ofBroker, "1", "max.connections")
	twice.Resources = append(twice.Resources, twice.Resources[0])
	describe("a resource twice", twice)
	mixed := describing(ofTopic, "configs.t", "segment.ms")
	mixed.Resources = append(mixed.Resources, describing(ofBroker, "9").Resources[0], describing(ofTopic, "nosuch").Resources[0], describing(ofGroup, "g", "nosuch").Resources[0])
	describe("several", mixed)
	nothing := describing(ofTopic, "configs.t")
	nothing.Resources = nil
	describe("nothing", nothing)
	b.compare(t, "configs/describe/denied", func(t *testing.T, p *peer) any {
		seen := map[string]any{}
		for name, req := range map[string]*kmsg.DescribeConfigsRequest{
			"broker": describing(ofBroker, "1"), "other broker": describing(ofBroker, "2"), "no broker": describing(ofBroker, "x"), "topic": describing(ofTopic, "configs.t"),
			"no topic": describing(ofTopic, "nosuch"), "group": describing(ofGroup, "g"), "metrics": describing(ofClients, "m"), "type": describing(99, "x"), "logger": describing(ofLogger, "1"),
		} {
			resp, err := p.request(t, "alice", req)
			if err != nil {
				seen[name] = err.Error()
			} else {
				seen[name] = p.view(resp)
			}
		}
		return seen
	})
	for v := range int16(2) {
		for name, kinds := range map[string][]int8{
			"all": nil, "topics": {2}, "brokers": {4}, "loggers": {8}, "metrics": {16}, "groups": {32}, "unknown": {99}, "zero": {0}, "two": {32, 16}, "one twice": {2, 2},
		} {
			if v == 0 && kinds != nil {
				continue
			}
			b.compare(t, fmt.Sprintf("configs/list v%d/%s", v, name), func(t *testing.T, p *peer) any {
				req := kmsg.NewPtrListConfigResourcesRequest()
				req.Version, req.ResourceTypes = v, kinds
				resp, err := p.request(t, "root", req)
				if err != nil {
					return err.Error()
				}
				answer, _ := resp.(*kmsg.ListConfigResourcesResponse)
				answer.ConfigResources = slices.DeleteFunc(answer.ConfigResources, func(r kmsg.ListConfigResourcesResponseConfigResource) bool {
					return r.Type == int8(ofTopic) && r.Name != "configs.t" || r.Type == int8(ofGroup)
				})
				return sortedIn(p.view(answer), "ConfigResources")
			})
		}
	}
}

// Every config that Kafka says may be altered, and every value that anybody might try.
func TestValuesOfConfigsAreJudgedAlike(t *testing.T) {
	b := shared(t)
	for _, p := range b.peers() {
		p.makeTopics(t, 1, "configs.t")
	}
	only := []kmsg.IncrementalAlterConfigOp{set}
	brokers, everything := b.kafka.mutable(t, ofBroker, "1")
	topics, _ := b.kafka.mutable(t, ofTopic, "configs.t")
	groups, _ := b.kafka.mutable(t, ofGroup, "g")
	own := func(name string) bool { return slices.Contains(ofKafkaAlone(), name) }
	brokers, everything = slices.DeleteFunc(brokers, own), slices.DeleteFunc(everything, own)
	b.judged(t, "configs/broker", ofBroker, "1", brokers, only, values())
	b.judged(t, "configs/all brokers", ofBroker, "", brokers, only, []*string{new("abc"), new("1")})
	b.judged(t, "configs/topic", ofTopic, "configs.t", topics, only, values())
	b.judged(t, "configs/group", ofGroup, "g", groups, only, append(values(), new("5000"), new("45000"), new("60001"), new("earliest"), new("by_duration:PT1H"), new("none"), new("read_committed")))
	b.judged(t, "configs/metrics", ofClients, "m", []string{"interval.ms", "metrics", "match", "nosuch"}, only,
		append(values(), new("99"), new("100"), new("3600000"), new("3600001"), new("*"), new("client_id=a"), new("client_id=[a"), new("nosuch=a"), new("a=b,c=d")))
	others := []kmsg.IncrementalAlterConfigOp{remove, add, subtract}
	few := []*string{nil, new("1"), new("a")}
	b.judged(t, "configs/ops on broker", ofBroker, "1", append(brokers, "nosuch"), others, []*string{nil, new("a")})
	fixed := slices.DeleteFunc(everything, func(name string) bool { return slices.Contains(brokers, name) })
	b.judged(t, "configs/fixed", ofBroker, "1", fixed, []kmsg.IncrementalAlterConfigOp{set, remove}, []*string{new("1")})
	b.judged(t, "configs/ops on topic", ofTopic, "configs.t", append(topics, "nosuch"), others, append(few, new("compact"), new("delete,compact"), new("*"), new("0:1"), new("")))
	b.judged(t, "configs/ops on group", ofGroup, "g", append(groups, "nosuch"), others, few)
	b.judged(t, "configs/ops on metrics", ofClients, "m", []string{"interval.ms", "metrics", "match", "nosuch"}, others, few)
}
