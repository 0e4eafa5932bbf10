package broker_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/brokerlab/brokerlab/broker"
)

func brokerConfig(r *raw, resource string, names ...string) map[string]kmsg.DescribeConfigsResponseResourceConfig {
	r.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms, req.IncludeDocumentation = 4, true, true
	one := kmsg.NewDescribeConfigsRequestResource()
	one.ResourceType, one.ResourceName, one.ConfigNames = kmsg.ConfigResourceTypeBroker, resource, names
	req.Resources = append(req.Resources, one)
	resp := ask[*kmsg.DescribeConfigsResponse](r, req)
	if resp.Resources[0].ErrorCode != 0 {
		r.t.Fatalf("DescribeConfigs of broker %q = %+v", resource, resp.Resources[0])
	}
	found := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, c := range resp.Resources[0].Configs {
		found[c.Name] = c
	}
	return found
}

// alter sets (or, with a nil value, deletes) configs of a broker and returns code and message.
func alter(r *raw, resource string, configs map[string]*string) (int16, string) {
	r.t.Helper()
	out := ask[*kmsg.IncrementalAlterConfigsResponse](r, alterRequest(resource, configs)).Resources[0]
	if out.ErrorMessage == nil {
		return out.ErrorCode, ""
	}
	return out.ErrorCode, *out.ErrorMessage
}

func alterRequest(resource string, configs map[string]*string) *kmsg.IncrementalAlterConfigsRequest {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	one := kmsg.NewIncrementalAlterConfigsRequestResource()
	one.ResourceType, one.ResourceName = kmsg.ConfigResourceTypeBroker, resource
	for name, value := range configs {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = name, value
		if value == nil {
			c.Op = kmsg.IncrementalAlterConfigOpDelete
		}
		one.Configs = append(one.Configs, c)
	}
	req.Resources = append(req.Resources, one)
	return req
}

func TestBrokerConfigsAreDescribedWithWhereTheyComeFrom(t *testing.T) {
	t.Parallel()
	cfg := plainConfig()
	cfg.Properties["ssl.key.password"], cfg.Properties["my.own"] = "secret", "x"
	b := start(t, cfg)
	r := dial(t, b.Addr("PLAINTEXT"))
	if code, message := alter(r, "", map[string]*string{"num.io.threads": new("6")}); code != 0 {
		t.Fatalf("alter the default: %d %s", code, message)
	}
	if code, message := alter(r, "1", map[string]*string{"num.io.threads": new("5")}); code != 0 {
		t.Fatalf("alter the broker: %d %s", code, message)
	}
	all := brokerConfig(r, "1")
	threads := all["num.io.threads"]
	synonyms := []string{}
	for _, s := range threads.ConfigSynonyms {
		synonyms = append(synonyms, fmt.Sprintf("%d=%s", s.Source, *s.Value))
	}
	if got, want := strings.Join(synonyms, " "), "2=5 3=6 4=4 5=8"; got != want || *threads.Value != "5" || threads.ReadOnly || threads.Source != 2 {
		t.Errorf("num.io.threads = %+v, synonyms %s, want 5 and %s", threads, got, want)
	}
	if c := all["node.id"]; !c.ReadOnly || c.Source != kmsg.ConfigSourceStaticBrokerConfig || *c.Value != "1" {
		t.Errorf("node.id = %+v, want read-only 1", c)
	}
	for _, secret := range []string{"ssl.key.password", "my.own"} {
		if c := all[secret]; !c.IsSensitive || c.Value != nil {
			t.Errorf("%s = %+v, want sensitive without a value", secret, c)
		}
	}
	if c := all["max.connections"]; c.Source != kmsg.ConfigSourceDefaultConfig || *c.Value != "2147483647" || c.ConfigType != kmsg.ConfigTypeInt || c.Documentation == nil {
		t.Errorf("max.connections = %+v, want Kafka's default", c)
	}
	if cluster := brokerConfig(r, ""); len(cluster) != 2 || *cluster["num.io.threads"].Value != "6" || len(cluster["num.io.threads"].ConfigSynonyms) != 1 ||
		*cluster["min.insync.replicas"].Value != "1" {
		t.Errorf("cluster-wide configs = %+v, want num.io.threads=6 and what a new cluster has", cluster)
	}
	if code, message := alter(r, "1", map[string]*string{"num.io.threads": nil}); code != 0 {
		t.Fatalf("delete: %d %s", code, message)
	}
	if c := brokerConfig(r, "1", "num.io.threads"); len(c) != 1 || *c["num.io.threads"].Value != "6" {
		t.Errorf("num.io.threads = %+v, want the default of all brokers, 6", c)
	}
}

func TestAlterationsThatKafkaRefusesAreRefusedInItsWords(t *testing.T) {
	t.Parallel()
	b := start(t, fourProtocols(t, newPKI(t)))
	r := dial(t, b.Addr("PLAINTEXT_V4"))
	for _, c := range []struct {
		resource, name, value string
		want                  string
	}{
		{"1", "node.id", "2", "Cannot update these configs dynamically: [node.id]"},
		{"1", "ssl.keystore.location", "/x", "These security configs can be dynamically updated only per-listener using the listener prefix: [ssl.keystore.location]"},
		{"", "listener.name.ssl_v4.ssl.keystore.location", "/x", "Cannot update these configs at default cluster level, broker id must be specified: [listener.name.ssl_v4.ssl.keystore.location]"},
		{"1", "num.io.threads", "many", "Invalid value many for configuration num.io.threads: Not a number of type INT"},
		{"1", "num.io.threads", "0", "Invalid value 0 for configuration num.io.threads: Value must be at least 1"},
		{"1", "num.io.threads", "100", "value should not be greater than double the current value 4"},
		{"2", "num.io.threads", "5", "Unexpected broker id, expected 1, but received 2"},
		{"one", "num.io.threads", "5", "Node id must be an integer, but it is: one"},
	} {
		if code, message := alter(r, c.resource, map[string]*string{c.name: &c.value}); code != 42 || !strings.Contains(message, c.want) {
			t.Errorf("%s: %s=%s: %d %q, want 42 %q", c.resource, c.name, c.value, code, message, c.want)
		}
	}
	for name := range brokerConfig(r, "1") {
		if strings.HasPrefix(name, "listener.name.") {
			t.Errorf("a refused %s was stored", name)
		}
	}
}

func TestTopicConfigsAreTheDataPlanes(t *testing.T) {
	t.Parallel()
	b := start(t, plainConfig())
	ctx := limit(t)
	admin := kadm.NewClient(client(t, b.Addr("PLAINTEXT")))
	if _, err := admin.CreateTopic(ctx, 1, 1, nil, "configured"); err != nil {
		t.Fatal(err)
	}
	if r, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "retention.ms", Value: new("1234")}}, "configured"); err != nil || r[0].Err != nil {
		t.Fatalf("AlterTopicConfigs = %v, %v", r, err)
	}
	got, err := admin.DescribeTopicConfigs(ctx, "configured")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range got[0].Configs {
		if c.Key == "retention.ms" && c.MaybeValue() != "1234" {
			t.Errorf("retention.ms = %s, want 1234", c.MaybeValue())
		}
	}
	if r, err := admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Name: "no.such", Value: new("1")}}, "configured"); err != nil || r[0].Err == nil {
		t.Errorf("an unknown topic config = %v, %v, want an error", r, err)
	}
}

func TestQuotasAreKeptAndDescribed(t *testing.T) {
	t.Parallel()
	b := start(t, plainConfig())
	ctx := limit(t)
	admin := kadm.NewClient(client(t, b.Addr("PLAINTEXT")))
	user := "alice"
	set := func(kind, key string, value float64) error {
		r, err := admin.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{
			Entity: kadm.ClientQuotaEntity{{Type: kind, Name: &user}}, Ops: []kadm.AlterClientQuotaOp{{Key: key, Value: value}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return r[0].Err
	}
	if err := set("user", "producer_byte_rate", 1024); err != nil {
		t.Errorf("producer_byte_rate: %v", err)
	}
	for key, value := range map[string]float64{"producer_byte_rate": -1, "no_such_rate": 1, "consumer_byte_rate": 1.5} {
		if err := set("user", key, value); err == nil {
			t.Errorf("%s=%v was accepted", key, value)
		}
	}
	if err := set("ip", "connection_creation_rate", 5); err == nil {
		t.Error("a connection rate that nobody enforces was accepted")
	}
	got, err := admin.DescribeClientQuotas(ctx, false, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchType: kmsg.QuotasMatchTypeAny}})
	if err != nil || len(got) != 1 || len(got[0].Values) != 1 || got[0].Values[0].Value != 1024 {
		t.Errorf("DescribeClientQuotas = %+v, %v, want alice with 1024", got, err)
	}
}

func TestClusterQuestionsAreAnswered(t *testing.T) {
	t.Parallel()
	cfg := plainConfig()
	cfg.Rack = "r1"
	b := start(t, cfg)
	r := dial(t, b.Addr("PLAINTEXT"))
	cluster := kmsg.NewPtrDescribeClusterRequest()
	cluster.Version, cluster.EndpointType, cluster.IncludeClusterAuthorizedOperations = 2, 1, true
	if resp := ask[*kmsg.DescribeClusterResponse](r, cluster); resp.ErrorCode != 0 || resp.ControllerID != 1 || len(resp.ClusterID) != 22 ||
		resp.ClusterAuthorizedOperations != 8096 || *resp.Brokers[0].Rack != "r1" || resp.Brokers[0].Port != int32(b.Addr("PLAINTEXT").Port()) {
		t.Errorf("DescribeCluster = %+v", resp)
	}
	cluster.EndpointType = 2
	if resp := ask[*kmsg.DescribeClusterResponse](r, cluster); resp.ErrorCode != 114 {
		t.Errorf("DescribeCluster of controllers = error %d, want 114", resp.ErrorCode)
	}
	quorum := kmsg.NewPtrDescribeQuorumRequest()
	quorum.Version = 2
	quorum.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	if p := ask[*kmsg.DescribeQuorumResponse](r, quorum).Topics[0].Partitions[0]; p.LeaderID != 1 || len(p.CurrentVoters) != 1 || p.HighWatermark <= 0 {
		t.Errorf("DescribeQuorum = %+v, want leader and voter 1", p)
	}
	acls := kmsg.NewPtrDescribeACLsRequest()
	acls.Version, acls.ResourceType, acls.ResourcePatternType, acls.Operation, acls.PermissionType = 3, 1, 1, 1, 1
	if resp := ask[*kmsg.DescribeACLsResponse](r, acls); resp.ErrorCode != 54 || *resp.ErrorMessage != "No Authorizer is configured on the broker" {
		t.Errorf("DescribeAcls = %+v, want 54", resp)
	}
	resources := kmsg.NewPtrListConfigResourcesRequest()
	resources.Version = 1
	if resp := ask[*kmsg.ListConfigResourcesResponse](r, resources); resp.ErrorCode != 0 || len(resp.ConfigResources) == 0 {
		t.Errorf("ListConfigResources = %+v, want the broker", resp)
	}
}

func TestFeatureLevelsChangeAsKafkasDo(t *testing.T) {
	t.Parallel()
	b := start(t, plainConfig())
	r := dial(t, b.Addr("PLAINTEXT"))
	update := func(name string, level int16, kind int8) string {
		req := kmsg.NewPtrUpdateFeaturesRequest()
		req.Version = 2
		u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
		u.Feature, u.MaxVersionLevel, u.UpgradeType = name, level, kind
		req.FeatureUpdates = append(req.FeatureUpdates, u)
		resp := ask[*kmsg.UpdateFeaturesResponse](r, req)
		if resp.ErrorMessage == nil {
			return ""
		}
		return *resp.ErrorMessage
	}
	for _, c := range []struct {
		name  string
		level int16
		kind  int8
		want  string
	}{
		{"metadata.version", 33, 1, ""},
		{"metadata.version", 34, 1, "Invalid update version 34 for feature metadata.version. Local controller 1 only supports versions 7-33"},
		{"metadata.version", 32, 1, "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."},
		{"metadata.version", 32, 2, "Unsupported metadata.version downgrade from 33 to 32. Refusing to perform the requested downgrade because it might delete metadata information."},
		{"metadata.version", 32, 3, "Unsafe metadata downgrade is not supported in this version."},
		{"no.such", 1, 1, "Local controller 1 does not support this feature."},
		{"streams.version", 1, 1, ""},
		{"streams.version", 0, 2, ""},
	} {
		if got := update(c.name, c.level, c.kind); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s to %d by %d: %q, want %q", c.name, c.level, c.kind, got, c.want)
		}
	}
	finalized := map[string]int16{}
	for _, f := range ask[*kmsg.ApiVersionsResponse](r, versionsRequest(4)).FinalizedFeatures {
		finalized[f.Name] = f.MaxVersionLevel
	}
	if finalized["metadata.version"] != 33 || finalized["group.version"] != 1 || finalized["transaction.version"] != 2 {
		t.Errorf("finalized features = %v", finalized)
	}
}

func TestMetadataHandlesTopicsInEveryVersion(t *testing.T) {
	t.Parallel()
	cfg := plainConfig()
	cfg.NumPartitions = 3
	b := start(t, cfg)
	r := dial(t, b.Addr("PLAINTEXT"))
	for version := range int16(14) {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.AllowAutoTopicCreation = version, true
		name := fmt.Sprint("topic-", version)
		req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}, {Topic: new("not valid")}}
		resp := ask[*kmsg.MetadataResponse](r, req)
		if version >= 2 && len(*resp.ClusterID) != 22 || version >= 1 && resp.ControllerID != 1 || len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 1 {
			t.Errorf("Metadata v%d = %+v", version, resp)
		}
		codes := map[string]int16{}
		for _, topic := range resp.Topics {
			if codes[*topic.Topic] = topic.ErrorCode; topic.ErrorCode == 0 && len(topic.Partitions) != 3 {
				t.Errorf("Metadata v%d: %s has %d partitions, want 3", version, *topic.Topic, len(topic.Partitions))
			}
		}
		if len(codes) != 2 || codes[name] != 0 || codes["not valid"] != 17 {
			t.Errorf("Metadata v%d: errors %v, want none for %s and 17", version, codes, name)
		}
	}
	for _, version := range []int16{0, 1, 12} {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = version
		if resp := ask[*kmsg.MetadataResponse](r, req); len(resp.Topics) != 14 {
			t.Errorf("Metadata v%d of all topics = %d topics, want 14", version, len(resp.Topics))
		}
	}
	off := kmsg.NewPtrMetadataRequest()
	off.Version, off.AllowAutoTopicCreation = 12, false
	off.Topics = []kmsg.MetadataRequestTopic{{Topic: new("not-made")}}
	if resp := ask[*kmsg.MetadataResponse](r, off); resp.Topics[0].ErrorCode != 3 {
		t.Errorf("Metadata without auto-creation = error %d, want 3", resp.Topics[0].ErrorCode)
	}
}

func TestMetricsAreServedAndNothingElse(t *testing.T) {
	t.Parallel()
	cfg := plainConfig()
	cfg.MetricsListener = "127.0.0.1:0"
	b := start(t, cfg)
	r := dial(t, b.Addr("PLAINTEXT"))
	ask[*kmsg.ApiVersionsResponse](r, versionsRequest(3))
	bad := dial(t, b.Addr("PLAINTEXT"))
	bad.frame(9999, 0, false, nil)
	bad.closed("an unknown key")
	get := func(path string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+b.MetricsAddr().String()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	if code, body := get("/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("/healthz = %d %q", code, body)
	}
	for _, path := range []string{"/", "/debug/pprof/", "/metrics/x"} {
		if code, _ := get(path); code != http.StatusNotFound {
			t.Errorf("%s = %d, want 404", path, code)
		}
	}
	var body string
	eventually(t, "counters of the closed connection", func() bool {
		_, body = get("/metrics")
		return strings.Contains(body, `brokerlab_connections_closed_total{listener="PLAINTEXT",reason="malformed_request"} 1`)
	})
	for _, line := range []string{
		`kafka_network_requestmetrics_requestspersec_count{request="ApiVersions",version="3"} 1`,
		`kafka_network_requestmetrics_errorspersec_count{error="NONE",request="ApiVersions"} 1`,
		`kafka_server_socket_server_metrics_connection_count{listener="PLAINTEXT"} 1`,
		`kafka_server_socket_server_metrics_connection_creation_total{listener="PLAINTEXT"} 2`,
		`brokerlab_io_threads 4`,
		"brokerlab_file_descriptors_limit ",
		"go_goroutines ",
		"process_open_fds ",
	} {
		if !strings.Contains(body, line) {
			t.Errorf("/metrics lacks %s", line)
		}
	}
	cfg2 := plainConfig()
	cfg2.MetricsListener = b.MetricsAddr().String()
	if second, err := broker.New(cfg2); err == nil || !strings.Contains(err.Error(), "metrics.listener") {
		t.Errorf("New with a taken metrics.listener = %v, %v, want an error", second, err)
	}
}

func TestTopicConfigsAreDescribedAsKafkaDescribesThem(t *testing.T) {
	t.Parallel()
	cfg := plainConfig()
	cfg.Properties = map[string]string{"log.cleanup.policy": "compact"}
	b := start(t, cfg)
	r := dial(t, b.Addr("PLAINTEXT"))
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Version, create.TimeoutMillis = 7, 5000
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", 1, 1
	topic.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms", Value: new("1000")}}
	create.Topics = append(create.Topics, topic)
	created := ask[*kmsg.CreateTopicsResponse](r, create)
	if created.Topics[0].ErrorCode != 0 || len(created.Topics[0].Configs) != 37 {
		t.Fatalf("CreateTopics = error %d, %d configs, want Kafka's 37", created.Topics[0].ErrorCode, len(created.Topics[0].Configs))
	}
	for _, c := range created.Topics[0].Configs {
		if c.Name == "retention.ms" && (c.Value == nil || *c.Value != "1000" || kmsg.ConfigSource(c.Source) != kmsg.ConfigSourceDynamicTopicConfig) {
			t.Errorf("CreateTopics answers retention.ms %+v, want 1000 of the topic", c)
		}
	}

	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms, req.IncludeDocumentation = 4, true, true
	one := kmsg.NewDescribeConfigsRequestResource()
	one.ResourceType, one.ResourceName = kmsg.ConfigResourceTypeTopic, "t"
	req.Resources = append(req.Resources, one)
	found := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, c := range ask[*kmsg.DescribeConfigsResponse](r, req).Resources[0].Configs {
		found[c.Name] = c
	}
	if len(found) != 37 {
		t.Errorf("%d configs are described, want 37", len(found))
	}
	line := func(name string) string {
		c := found[name]
		parts := []string{c.Source.String(), c.ConfigType.String()}
		for _, s := range c.ConfigSynonyms {
			parts = append(parts, s.Source.String()+":"+s.Name+"="+*s.Value)
		}
		return strings.Join(parts, " ")
	}
	for name, want := range map[string]string{
		"retention.ms":      "DYNAMIC_TOPIC_CONFIG LONG DYNAMIC_TOPIC_CONFIG:retention.ms=1000",
		"cleanup.policy":    "STATIC_BROKER_CONFIG LIST STATIC_BROKER_CONFIG:log.cleanup.policy=compact DEFAULT_CONFIG:log.cleanup.policy=delete",
		"max.message.bytes": "DEFAULT_CONFIG INT DEFAULT_CONFIG:message.max.bytes=1048588",
		"flush.ms":          "DEFAULT_CONFIG LONG",
	} {
		if got := line(name); got != want {
			t.Errorf("%s = %s, want %s", name, got, want)
		}
	}
	if c := found["max.message.bytes"]; c.Documentation == nil || *c.Documentation == "" {
		t.Error("max.message.bytes is not documented")
	}
	req.Resources[0].ConfigNames = []string{"flush.ms", "no.such"}
	if got := ask[*kmsg.DescribeConfigsResponse](r, req).Resources[0].Configs; len(got) != 1 || got[0].Name != "flush.ms" {
		t.Errorf("asked for two names: %+v, want flush.ms alone", got)
	}
}

func TestGroupConfigsAreDescribedAsKafkaDescribesThem(t *testing.T) {
	t.Parallel()
	b := start(t, plainConfig())
	r := dial(t, b.Addr("PLAINTEXT"))
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms = 4, true
	one := kmsg.NewDescribeConfigsRequestResource()
	one.ResourceType, one.ResourceName = kmsg.ConfigResourceTypeGroupConfig, "g"
	req.Resources = append(req.Resources, one)
	configs := ask[*kmsg.DescribeConfigsResponse](r, req).Resources[0].Configs
	if len(configs) != 21 {
		t.Errorf("%d configs are described, want Kafka's 21", len(configs))
	}
	for _, c := range configs {
		if c.Name != "consumer.session.timeout.ms" {
			continue
		}
		if c.Value == nil || *c.Value != "45000" || c.ConfigType != kmsg.ConfigTypeInt || len(c.ConfigSynonyms) != 1 || c.ConfigSynonyms[0].Name != "group.consumer.session.timeout.ms" {
			t.Errorf("consumer.session.timeout.ms = %+v, want 45000 of the broker's", c)
		}
	}
}
